package fields

import (
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

func TestQuery(t *testing.T) {
	for path, want := range map[string]string{
		"/": "-", "/?": "-", "/?a=1": "1", "/?b=2&a=1&a=3": "1", "/?a": "", "/?a=": "", "/?a=x=y": "x=y", "/?aa=1": "-", "/?&&a=4": "4", "/?a=%20": "%20",
	} {
		got, ok := Query(path, "a")
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestCookie(t *testing.T) {
	for line, want := range map[string]string{
		"": "-", "a=1": "1", "b=2; a=1": "1", `a="1"`: "1", `a="`: `"`, "a": "-", "a=1;a=2": "1", "a=b=c": "b=c", "aa=1": "-", "a=": "",
	} {
		var m header.Map
		m.Add("cookie", line)
		got, ok := Cookie(&m, "a")
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
