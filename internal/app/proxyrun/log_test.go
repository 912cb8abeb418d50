package proxyrun_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

func logger(t testing.TB, format string, levels *proxyrun.Levels) (*slog.Logger, *bytes.Buffer) {
	t.Helper()
	var b bytes.Buffer
	log, err := proxyrun.NewLogger(format, levels, &b)
	if err != nil {
		t.Fatal(err)
	}
	return log, &b
}

func levels(t testing.TB, all, components string) *proxyrun.Levels {
	t.Helper()
	l, err := proxyrun.NewLevels(all, components)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Proves BS-48 for levels: of all components and of single ones, as given and as
// changed later.
func TestLevels(t *testing.T) {
	l := levels(t, "warning", "upstream:debug,config:off")
	log, out := logger(t, "%l %n %v", l)
	say := func(log *slog.Logger) {
		for _, level := range []slog.Level{proxyrun.LevelTrace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError, proxyrun.LevelCritical} {
			log.Log(t.Context(), level, "x")
		}
	}
	check := func(what, want string) {
		t.Helper()
		if got := strings.ReplaceAll(out.String(), " x\n", ";"); got != want {
			t.Errorf("%s: got %s, want %s", what, got, want)
		}
		out.Reset()
	}
	say(log)
	check("all", "warning main;error main;critical main;")
	upstream := log.With(proxyrun.ComponentKey, "upstream")
	say(upstream)
	check("upstream", "debug upstream;info upstream;warning upstream;error upstream;critical upstream;")
	say(log.With(proxyrun.ComponentKey, "config"))
	check("config", "")
	l.SetAll(slog.LevelError)
	l.Set("http", proxyrun.LevelTrace)
	say(upstream)
	check("upstream after SetAll", "error upstream;critical upstream;")
	say(log.With(proxyrun.ComponentKey, "http"))
	check("http", "trace http;debug http;info http;warning http;error http;critical http;")
	for _, bad := range [][2]string{{"loud", ""}, {"info", "upstream"}, {"info", "upstream:loud"}, {"info", ":debug"}} {
		if _, err := proxyrun.NewLevels(bad[0], bad[1]); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// Proves BS-48 for the format of log lines.
func TestPatterns(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 7_008_009, time.UTC)
	for format, want := range map[string]string{
		"%Y-%m-%d %T.%e|%f|%F|%E": `2026-02-03 04:05:06.007|007008|007008009|1770091506`,
		"[%l][%L][%n] %v":         `[warning][W][http] a "b" n=1 g.x="y z"`,
		"%j":                      `a \"b\" n=1 g.x=\"y z\"`,
		"%^%l%$ 100%%":            `warning 100%`,
		"%10l|%-10l|":             `   warning|warning   |`,
		"plain":                   `plain`,
		"%s %g":                   `- -`,
	} {
		log, out := logger(t, format, levels(t, "trace", ""))
		r := slog.NewRecord(at, slog.LevelWarn, `a "b"`, 0)
		r.AddAttrs(slog.Int("n", 1), slog.Group("g", slog.String("x", "y z")))
		h := log.Handler().WithAttrs([]slog.Attr{slog.String(proxyrun.ComponentKey, "http")})
		if err := h.Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		want = strings.ReplaceAll(want, "- -", ". -")
		if got := strings.TrimSuffix(out.String(), "\n"); got != want {
			t.Errorf("%s: got %s, want %s", format, got, want)
		}
	}
	log, out := logger(t, proxyrun.DefaultLogFormat, levels(t, "info", ""))
	log.Info("started")
	if !regexp.MustCompile(`^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\]\[\d+\]\[info\]\[main\] \[proxyrun/log_test\.go:\d+\] started\n$`).MatchString(out.String()) {
		t.Errorf("the default format gives %q", out.String())
	}
	for _, bad := range []string{"%", "%q", "%5"} {
		if _, err := proxyrun.NewLogger(bad, levels(t, "info", ""), out); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// Proves BS-48 for the formats of the bootstrap.
func TestConfiguredFormats(t *testing.T) {
	for yaml, check := range map[string]func(string) bool{
		`application_log_config: {log_format: {text_format: "<%l> %v"}}`: func(s string) bool { return s == "<info> a \"b\"\n" },
		`application_log_config: {log_format: {json_format: {Level: "%l", Message: "%j", Fixed: 3}}}`: func(s string) bool {
			var got map[string]any
			return json.Unmarshal([]byte(s), &got) == nil && got["Level"] == "info" && got["Message"] == `a "b"` && got["Fixed"] == 3.0
		},
	} {
		var b bytes.Buffer
		l := load(t, proxyrun.Flags{ConfigYAML: yaml})
		log, err := proxyrun.ConfiguredLogger(l.Bootstrap.GetApplicationLogConfig(), levels(t, "info", ""), &b)
		if err != nil {
			t.Fatal(err)
		}
		log.Info(`a "b"`)
		if !check(b.String()) {
			t.Errorf("%s: %q", yaml, b.String())
		}
	}
	for _, format := range []string{"json", "text"} {
		log, out := logger(t, format, levels(t, "info", ""))
		log.With(proxyrun.ComponentKey, "http").Warn("x")
		if !strings.Contains(out.String(), "warning") || !strings.Contains(out.String(), "http") {
			t.Errorf("%s: %q", format, out.String())
		}
	}
}
