package format_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// Proves AL-07: formats of times, as Envoy 1.40 printed this one.
func TestTimes(t *testing.T) {
	for in, want := range map[string]string{
		"%s": "1795282533", "%f": "741133000", "%s.%3f %1f %6f %9f": "1795282533.741 7 741133 741133000", "%3f%3f": "741741",
		"%E3S %E*S %E*f %E3f %ES": "33.741 33.741133 741133 741 %ES",
		"%a %A %b %B %c %C %d %D %e %F %g %G %h %H %I %j %k %l %m %M %p": "Sat Saturday Nov November Sat Nov 21 17:35:33 2026 20 21 11/21/26 21 2026-11-21 26 2026 Nov 17 05 325 17  5 11 35 PM",
		"%P %r %R %S %T %u %U %V %w %W %x %X %y %Y %z %Z %t%%":           "pm 05:35:33 PM 17:35 33 17:35:33 6 46 47 6 46 11/21/26 17:35:33 26 2026 +0000 UTC \t%",
		"%Ez %E*z %:z %::z %:::z %E4Y %ET %OS %Od":                       "+00:00 +00:00:00 +00:00 +00:00:00 +00 2026 T 33 21",
		"%Q %i %J %K %L %N %o %q %v %E %5S %3E 100":                      "%Q %i %J %K %L %N %o %q %v %E 00033 %3E 100",
		"%-d %_d %^a %#Z %05d %-m":                                       "21 21 SAT utc 00021 11",
		"abc":                                                            "abc", "%": "%", "%5": "%5", "%Y-%m-%dT%H:%M:%S": "2026-11-21T17:35:33",
	} {
		f, err := format.Parse("%START_TIME(" + in + ")%")
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(f.AppendLog(nil, proxied())); got != want {
			t.Errorf("%s:\n got %q\nwant %q", in, got, want)
		}
	}
}

func TestLocalTimes(t *testing.T) {
	f, err := format.Parse("%START_TIME_LOCAL% %EMIT_TIME_LOCAL(%Y)%")
	if err != nil {
		t.Fatal(err)
	}
	c := proxied()
	want := c.Info.StartTime.Local().Format("2006-01-02T15:04:05.000-0700 2006")
	if got := string(f.AppendLog(nil, c)); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestZones(t *testing.T) {
	f, err := format.Parse("%START_TIME_LOCAL(%z %:z %::z %:::z %Ez)%")
	if err != nil {
		t.Fatal(err)
	}
	c := proxied()
	old := time.Local
	defer func() { time.Local = old }()
	for offset, want := range map[int]string{
		-(3*3600 + 30*60): "-0330 -03:30 -03:30:00 -03:30 -03:30", 5*3600 + 1: "+0500 +05:00 +05:00:01 +05:00:01 +05:00",
	} {
		time.Local = time.FixedZone("X", offset)
		if got := string(f.AppendLog(nil, c)); got != want {
			t.Errorf("%d: %q, want %q", offset, got, want)
		}
	}
}

// The default form agrees with the time package, and the others do where it has
// a layout for them.
func TestTimesAgree(t *testing.T) {
	for in, layout := range map[string]string{
		"%START_TIME%": "2006-01-02T15:04:05.000Z", "%START_TIME(%F %T %j %I %p %y)%": "2006-01-02 15:04:05 002 03 PM 06",
		"%START_TIME(%e|%b|%A|%6f)%": "_2|Jan|Monday|000000",
	} {
		f, err := format.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			at := time.Unix(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
			if at.Year() < 1000 && in != "%START_TIME%" {
				t.Skip("years are not padded")
			}
			want := at.Format(layout)
			if layout[len(layout)-6:] == "000000" {
				want = at.Format(layout[:len(layout)-6]) + at.Format(".000000")[1:]
			}
			c := &format.Context{Info: &filter.StreamInfo{StartTime: at}}
			if got := string(f.AppendLog(nil, c)); got != want {
				t.Fatalf("%s of %v: %q, want %q", in, at, got, want)
			}
		})
	}
}

// While a stream lives, its duration is that until now.
func TestDurationSoFar(t *testing.T) {
	f, err := format.Parse("%DURATION%")
	if err != nil {
		t.Fatal(err)
	}
	c := proxied()
	c.Info.Timing.End = -1
	c.Now = c.Info.StartTime.Add(42 * time.Millisecond)
	if got := string(f.AppendLog(nil, c)); got != "42" {
		t.Errorf("%s", got)
	}
}
