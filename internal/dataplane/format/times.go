package format

import (
	"errors"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// timeOp finds the operators of points in time: a format may follow in
// parentheses (AL-07).
func timeOp(name string) maker {
	switch name {
	case "START_TIME":
		return timeMaker(startTime, false)
	case "START_TIME_LOCAL":
		return timeMaker(startTime, true)
	case "EMIT_TIME":
		return timeMaker((*Context).emitTime, false)
	case "EMIT_TIME_LOCAL":
		return timeMaker((*Context).emitTime, true)
	case "DOWNSTREAM_PEER_CERT_V_START":
		return certTime(downstreamTLS, func(x *filter.CertInfo) time.Time { return x.NotBefore })
	case "DOWNSTREAM_PEER_CERT_V_END":
		return certTime(downstreamTLS, func(x *filter.CertInfo) time.Time { return x.NotAfter })
	case "UPSTREAM_PEER_CERT_V_START":
		return certTime(upstreamTLS, func(x *filter.CertInfo) time.Time { return x.NotBefore })
	case "UPSTREAM_PEER_CERT_V_END":
		return certTime(upstreamTLS, func(x *filter.CertInfo) time.Time { return x.NotAfter })
	}
	return nil
}

func startTime(c *Context) (time.Time, bool) {
	if c.Info == nil {
		return time.Time{}, false
	}
	return c.Info.StartTime, true
}

func (c *Context) emitTime() (time.Time, bool) { return c.now(), true }

func certTime(of tlsOf, get func(*filter.CertInfo) time.Time) maker {
	return timeMaker(func(c *Context) (time.Time, bool) {
		x := of.peer(c)
		if x == nil {
			return time.Time{}, false
		}
		return get(x), true
	}, false)
}

func timeMaker(get func(*Context) (time.Time, bool), local bool) maker {
	return func(t *token, _ *Options) (*op, error) {
		text := t.param
		if text == "" {
			if !local {
				return iso(get), nil
			}
			text = "%Y-%m-%dT%H:%M:%E3S%z"
		}
		layout, err := parseTime(text)
		if err != nil {
			return nil, err
		}
		return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
			at, ok := get(c)
			if !ok {
				return dst, false
			}
			if local {
				at = at.Local()
			} else {
				at = at.UTC()
			}
			return layout.append(dst, at), true
		}}, nil
	}
}

// iso is the default form, "2006-01-02T15:04:05.000Z".
func iso(get func(*Context) (time.Time, bool)) *op {
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		at, ok := get(c)
		if !ok {
			return dst, false
		}
		return appendISO(dst, at), true
	}}
}

// appendISO is written by hand since it is on every line: half the time of
// time.AppendFormat.
func appendISO(dst []byte, at time.Time) []byte {
	const day = 24 * 60 * 60
	s := at.Unix()
	days := s / day
	if s%day < 0 {
		days--
	}
	s -= days * day
	y, m, d := civil(days)
	if y < 1000 || y > 9999 {
		return at.UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	}
	ms := at.Nanosecond() / int(time.Millisecond)
	h, m60, sec := s/3600, s/60%60, s%60
	return append(dst,
		digit(y/1000), digit(y/100), digit(y/10), digit(y), '-', digit(m/10), digit(m), '-', digit(d/10), digit(d), 'T',
		digit(h/10), digit(h), ':', digit(m60/10), digit(m60), ':', digit(sec/10), digit(sec), '.',
		digit(int64(ms/100)), digit(int64(ms/10)), digit(int64(ms)), 'Z')
}

func digit(v int64) byte { return '0' + byte(v%10) }

// civil is the Gregorian date of a day counted from 1970-01-01. It counts
// years from March, so that a leap day is a year's last.
func civil(days int64) (year, month, day int64) {
	const era = 146097 // days in 400 years
	days += 719468     // since 0000-03-01
	e := days / era
	if days%era < 0 {
		e--
	}
	doe := days - e*era
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = doy - (153*mp+2)/5 + 1
	month = mp + 3
	year = yoe + e*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func errNewline() error {
	return errors.New("Invalid header configuration. Format string contains newline.") //nolint:revive,staticcheck // Envoy's text
}
