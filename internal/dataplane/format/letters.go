package format

import (
	"bytes"
	"strconv"
	"time"
)

// letter compiles a conversion of C's strftime; nil if there is none.
func (p spec) letter(c byte) func([]byte, time.Time) []byte {
	if get, width, pad := numberLetter(c); get != nil {
		return p.number(get, width, pad)
	}
	if get := textLetter(c); get != nil {
		return p.text(c, get)
	}
	return nil
}

// number pads as the flags say.
func (p spec) number(get func(time.Time) int, width int, pad byte) func([]byte, time.Time) []byte {
	switch p.pad {
	case '-':
		width = 1
	case '_':
		pad = ' '
	case '0':
		pad = '0'
	}
	width = max(width, p.width)
	return func(dst []byte, t time.Time) []byte { return padded(dst, get(t), width, pad) }
}

// text changes case and pads as the flags say.
func (p spec) text(c byte, get func([]byte, time.Time) []byte) func([]byte, time.Time) []byte {
	if p == (spec{}) {
		return get
	}
	pad := byte(' ')
	if p.pad == '0' {
		pad = '0'
	}
	return func(dst []byte, t time.Time) []byte {
		n := len(dst)
		dst = get(dst, t)
		switch {
		case p.swap && (c == 'Z' || c == 'p'):
			copy(dst[n:], bytes.ToLower(dst[n:]))
		case p.upper || p.swap && c != 'P':
			copy(dst[n:], bytes.ToUpper(dst[n:]))
		}
		if p.pad == '-' {
			return dst
		}
		for len(dst)-n < p.width {
			dst = append(dst, 0)
			copy(dst[n+1:], dst[n:])
			dst[n] = pad
		}
		return dst
	}
}

// numberLetter are the conversions to numbers with their width and padding.
func numberLetter(c byte) (get func(time.Time) int, width int, pad byte) {
	switch c {
	case 'C':
		return func(t time.Time) int { return t.Year() / 100 }, 2, '0'
	case 'd':
		return time.Time.Day, 2, '0'
	case 'e':
		return time.Time.Day, 2, ' '
	case 'g':
		return func(t time.Time) int { y, _ := t.ISOWeek(); return y % 100 }, 2, '0'
	case 'G':
		return func(t time.Time) int { y, _ := t.ISOWeek(); return y }, 1, '0'
	case 'H':
		return time.Time.Hour, 2, '0'
	case 'I':
		return hour12, 2, '0'
	case 'j':
		return time.Time.YearDay, 3, '0'
	case 'k':
		return time.Time.Hour, 2, ' '
	case 'l':
		return hour12, 2, ' '
	case 'm':
		return func(t time.Time) int { return int(t.Month()) }, 2, '0'
	case 'M':
		return time.Time.Minute, 2, '0'
	case 's':
		return func(t time.Time) int { return int(t.Unix()) }, 1, '0'
	case 'S':
		return time.Time.Second, 2, '0'
	case 'u':
		return func(t time.Time) int { return (int(t.Weekday())+6)%7 + 1 }, 1, '0'
	case 'U':
		return func(t time.Time) int { return (t.YearDay() + 6 - int(t.Weekday())) / 7 }, 2, '0'
	case 'V':
		return func(t time.Time) int { _, w := t.ISOWeek(); return w }, 2, '0'
	case 'w':
		return func(t time.Time) int { return int(t.Weekday()) }, 1, '0'
	case 'W':
		return func(t time.Time) int { return (t.YearDay() + 6 - (int(t.Weekday())+6)%7) / 7 }, 2, '0'
	case 'y':
		return func(t time.Time) int { return t.Year() % 100 }, 2, '0'
	case 'Y':
		return time.Time.Year, 1, '0'
	}
	return nil, 0, 0
}

func hour12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

// textLetter are the other conversions, in the C locale.
func textLetter(c byte) func([]byte, time.Time) []byte {
	layout := ""
	switch c {
	case 'a':
		layout = "Mon"
	case 'A':
		layout = "Monday"
	case 'b', 'h':
		layout = "Jan"
	case 'B':
		layout = "January"
	case 'c':
		layout = "Mon Jan _2 15:04:05 2006"
	case 'D', 'x':
		layout = "01/02/06"
	case 'F':
		return func(dst []byte, t time.Time) []byte {
			return t.AppendFormat(strconv.AppendInt(dst, int64(t.Year()), 10), "-01-02")
		}
	case 'p':
		layout = "PM"
	case 'P':
		layout = "pm"
	case 'r':
		layout = "03:04:05 PM"
	case 'R':
		layout = "15:04"
	case 'T', 'X':
		layout = "15:04:05"
	case 'z':
		return zone(0)
	case 'Z':
		layout = "MST"
	case 't':
		return func(dst []byte, _ time.Time) []byte { return append(dst, '\t') }
	case '%':
		return func(dst []byte, _ time.Time) []byte { return append(dst, '%') }
	default:
		return nil
	}
	return func(dst []byte, t time.Time) []byte { return t.AppendFormat(dst, layout) }
}
