package proxyrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// DefaultLogFormat is Envoy's pattern of a log line.
const DefaultLogFormat = "[%Y-%m-%d %T.%e][%t][%l][%n] [%g:%#] %v"

// line is what a log line is made of.
type line struct {
	time               time.Time
	level              string
	component, message string
	frame              runtime.Frame
	pid                int
}

// pattern makes log lines as a format in the syntax of Envoy's --log-format
// says. It is immutable.
type pattern []func(*bytes.Buffer, *line)

// newPattern compiles a format. With json, strings are escaped as within JSON's
// quotes, for formats that are JSON.
func newPattern(format string, json bool) (pattern, error) {
	var p pattern
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		if i > 0 {
			p = append(p, literal(format[:i]))
			format = format[i:]
			continue
		}
		width, flag, rest := cutFlag(format[1:])
		if flag == 0 {
			return nil, fmt.Errorf("the log format ends in a %%")
		}
		f, ok := flagOf(flag, json)
		if !ok {
			return nil, fmt.Errorf("the log format has the unknown flag %%%c", flag)
		}
		p = append(p, padded(f, width))
		format = rest
	}
	return p, nil
}

// cutFlag takes the flag off a format, and the width before it: to the left of
// the text, or, if negative, to the right.
func cutFlag(format string) (width int, flag byte, rest string) {
	digits := len(format) - len(strings.TrimLeft(format, "-0123456789"))
	width, err := strconv.Atoi(format[:digits])
	if err != nil || width > 64 || width < -64 {
		width = 0
	}
	if digits == len(format) {
		return width, 0, ""
	}
	return width, format[digits], format[digits+1:]
}

func literal(text string) func(*bytes.Buffer, *line) {
	return func(b *bytes.Buffer, _ *line) { b.WriteString(text) }
}

func padded(f func(*bytes.Buffer, *line), width int) func(*bytes.Buffer, *line) {
	if width == 0 {
		return f
	}
	return func(b *bytes.Buffer, l *line) {
		var one bytes.Buffer
		f(&one, l)
		fmt.Fprintf(b, "%*s", width, one.String())
	}
}

// flagOf is what a flag stands for.
func flagOf(flag byte, escape bool) (func(*bytes.Buffer, *line), bool) {
	if layout, ok := timeLayout(flag); ok {
		return func(b *bytes.Buffer, l *line) { b.WriteString(l.time.Format(layout)) }, true
	}
	var text func(*line) string
	switch flag {
	case 'v', '_', 'j':
		escape = escape || flag == 'j'
		text = func(l *line) string {
			if flag == '_' {
				return strings.ReplaceAll(l.message, "\n", "\\n")
			}
			return l.message
		}
	case 'l':
		text = func(l *line) string { return l.level }
	case 'L':
		text = func(l *line) string { return strings.ToUpper(l.level[:1]) }
	case 'n':
		text = func(l *line) string { return l.component }
	case 't', 'P':
		text = func(l *line) string { return strconv.Itoa(l.pid) }
	case 's':
		text = func(l *line) string { return path.Base(l.frame.File) }
	case 'g':
		text = func(l *line) string { return shortFile(l.frame.File) }
	case '@':
		text = func(l *line) string { return shortFile(l.frame.File) + ":" + strconv.Itoa(l.frame.Line) }
	case '#':
		text = func(l *line) string { return strconv.Itoa(l.frame.Line) }
	case '!':
		text = func(l *line) string { return l.frame.Function }
	case 'f':
		text = func(l *line) string { return fmt.Sprintf("%06d", l.time.Nanosecond()/1000) }
	case 'F':
		text = func(l *line) string { return fmt.Sprintf("%09d", l.time.Nanosecond()) }
	case 'e':
		text = func(l *line) string { return fmt.Sprintf("%03d", l.time.Nanosecond()/1_000_000) }
	case 'E':
		text = func(l *line) string { return strconv.FormatInt(l.time.Unix(), 10) }
	case '%', '^', '$':
		// %^ and %$ bound the part that a terminal shows in colour.
		text = func(*line) string { return strings.TrimLeft(string(flag), "^$") }
	default:
		return nil, false
	}
	return func(b *bytes.Buffer, l *line) { writeText(b, text(l), escape) }, true
}

func writeText(b *bytes.Buffer, s string, escape bool) {
	if !escape {
		b.WriteString(s)
		return
	}
	quoted, err := json.Marshal(s)
	if err == nil {
		b.Write(quoted[1 : len(quoted)-1])
	}
}

// shortFile is a file with its folder.
func shortFile(name string) string {
	if name == "" {
		return "-"
	}
	return path.Join(path.Base(path.Dir(name)), path.Base(name))
}

// timeLayout is the layout of the flags that are parts of the time.
func timeLayout(flag byte) (string, bool) {
	layouts := map[byte]string{
		'Y': "2006", 'C': "06", 'm': "01", 'd': "02", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM",
		'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'r': "03:04:05 PM", 'D': "01/02/06", 'x': "01/02/06",
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'h': "Jan", 'B': "January", 'c': "Mon Jan _2 15:04:05 2006", 'z': "-07:00",
	}
	l, ok := layouts[flag]
	return l, ok
}
