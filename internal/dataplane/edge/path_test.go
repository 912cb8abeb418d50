package edge

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	normal = `"normalizePath":true`
	merge  = `"mergeSlashes":true`
)

// measuredPaths are what Envoy 1.40 makes of paths with normalize_path.
func measuredPaths() map[string]string {
	return map[string]string{
		"/a/../%2e%2e//b%2Fc": "//b%2Fc", "/%41": "/A", `/a\b`: "/a/b", "/a/..;/b": "/b", "/a/..;x=1/b": "/b", "/a/.;x/b": "/a/b",
		"/a;..": "/a;..", "/..": "/", "/../": "/", "/.": "/", "/./": "/", "/a/.": "/a/", "/a/./": "/a/", "/a/..": "/", "/a/../": "/",
		"/...": "/...", "/a/...": "/a/...", "/.a": "/.a", "/a/.b/": "/a/.b/", "/a/b/../../c": "/c", "/a/b/../../../c": "/c",
		"/%2e%2e/%2E%2E/x": "/x", "/%2f": "/%2f", "/%5c": "/%5c", "/%5C..": "/%5C..", `/\..\a`: "/a", "/a%2f..%2fb": "/a%2f..%2fb",
		"/%zz": "/%zz", "/%": "/%", "/%2": "/%2", "/%7e": "/~", "/%7E%2d%5f": "/~-_", "/%c3%a9": "/%c3%a9", "/%C3%A9": "/%C3%A9",
		"/a?x=/../b": "/a?x=/../b", `/a/../b?q=%2e%2f\`: `/b?q=%2e%2f\`, "//": "//", "//a": "//a", "/a//b": "/a//b", "/a//../b": "/a/b",
		"//..//a": "//a", "/a/%2e/b": "/a/b", "/%25": "/%25", "/%252e%252e": "/%252e%252e", `/a"b`: "/a%22b", "/<>": "/%3C%3E",
		"/{}|^`": "/%7B%7D%7C%5E%60", "/;": "/;", "/a;b=c/../d": "/d", "/~a": "/~a", "/!$&'()*+,=:@": "/!$&'()*+,=:@", "/%21%24": "/%21%24",
		"/%20": "/%20", "/%0a": "/%0a", "/?": "/?", "/a?": "/a?", "/??": "/??", "/[x]": "/[x]", "/%3f": "/%3f", "/%2F%2f": "/%2F%2f", "/\xe9": "/%E9",
	}
}

// Proves HC-39: normalisation.
func TestNormalize(t *testing.T) {
	r := rulesOf(t, normal)
	for in, want := range measuredPaths() {
		if a := r.ask(ask{path: in}); a.Status != 0 || a.get(":path") != want {
			t.Errorf("%s became %s (%d), want %s", in, a.get(":path"), a.Status, want)
		}
	}
	for _, in := range []string{"/%00", "/a%00b"} {
		if a := r.ask(ask{path: in}); a.Status != 400 || a.Details != "path_normalization_failed" {
			t.Errorf("%s: %d %s", in, a.Status, a.Details)
		}
	}
	// Where Envoy's result is not its own canonical form.
	for in, want := range map[string]string{"/a/%2e%2e;/b": "/b", "/%%341": "/%%341", "/%4%31": "/%4%31", "/%x%41": "/%x%41", "/%xy%41": "/%xyA"} {
		if a := r.ask(ask{path: in}); a.get(":path") != want {
			t.Errorf("%s became %s, want %s", in, a.get(":path"), want)
		}
	}
	if got := rulesOf(t, "").ask(ask{path: `/a/../%41\`}).get(":path"); got != `/a/../%41\` {
		t.Errorf("not asked for, yet the path became %s", got)
	}
}

// Proves HC-39: merge_slashes.
func TestMergeSlashes(t *testing.T) {
	for in, want := range map[string][2]string{
		"//a//b": {"/a/b", "/a/b"}, "/a//..//b": {"/a/../b", "/a/b"}, "/a%2f%2fb": {"/a%2f%2fb", "/a%2f%2fb"}, "/a?b//c": {"/a?b//c", "/a?b//c"},
		"/a//?x": {"/a/?x", "/a/?x"}, "///": {"//", "//"}, "/%2f%2f": {"/%2f%2f", "/%2f%2f"}, "/": {"/", "/"},
	} {
		if got := rulesOf(t, merge).ask(ask{path: in}).get(":path"); got != want[0] {
			t.Errorf("%s became %s, want %s", in, got, want[0])
		}
		if got := rulesOf(t, merge+","+normal).ask(ask{path: in}).get(":path"); got != want[1] {
			t.Errorf("normalised, %s became %s, want %s", in, got, want[1])
		}
	}
}

// Proves HC-39: path_with_escaped_slashes_action, alone and with the others.
func TestEscapedSlashes(t *testing.T) {
	action := func(a string) *Rules { return rulesOf(t, `"pathWithEscapedSlashesAction":"`+a+`"`) }
	all := func(a string) *Rules { return rulesOf(t, `"pathWithEscapedSlashesAction":"`+a+`",`+normal+","+merge) }
	// Per path: forwarded alone, forwarded with the others; "" if there is
	// nothing to unescape.
	for in, want := range map[string][2]string{
		"/a%2fb": {"/a/b", "/a/b"}, "/a%2Fb?x=%2f": {"/a/b?x=%2f", "/a/b?x=%2f"}, "/a%5cb": {`/a\b`, "/a/b"}, "/a%5Cb": {`/a\b`, "/a/b"},
		"/%2f": {"//", "//"}, "/a%2f..%2fb": {"/a/../b", "/b"}, "/a%2f%2fb": {"/a//b", "/a/b"},
		"/a?x=%2f": {"", ""}, "/a%252fb": {"", ""}, "/ok": {"", ""}, "/a%2": {"", ""},
	} {
		for i, with := range []func(string) *Rules{action, all} {
			status := [3]int{400, 307, 0}
			path := want[i]
			if path == "" {
				status, path = [3]int{}, in
			}
			for k, name := range []string{"REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD"} {
				a := with(name).ask(ask{path: in})
				if a.Status != status[k] || a.Status != 400 && a.get(":path") != path {
					t.Errorf("%s %s: %d %s, want %d %s", name, in, a.Status, a.get(":path"), status[k], path)
				}
				if a.Status == 307 && a.Location != path || a.Status != 0 && a.Details != "path_normalization_failed" {
					t.Errorf("%s %s: location %s, details %s", name, in, a.Location, a.Details)
				}
			}
		}
		if got := action("KEEP_UNCHANGED").ask(ask{path: in}).get(":path"); got != in {
			t.Errorf("to be kept, %s became %s", in, got)
		}
	}
}

// Proves HC-40.
func TestFragments(t *testing.T) {
	for in, cut := range map[string]string{"/a#b": "/a", "/a?x#b": "/a?x", "/#": "/", "/a#?b": "/a"} {
		if a := rulesOf(t, "").ask(ask{path: in}); a.Status != 400 || a.Details != "path_normalization_failed" {
			t.Errorf("%s: %d %s", in, a.Status, a.Details)
		}
		r, err := New(config(t, normal), &Env{AcceptFragments: func() bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		if a := r.ask(ask{path: in}); a.Status != 0 || a.get(":path") != cut {
			t.Errorf("%s: %d %s, want %s", in, a.Status, a.get(":path"), cut)
		}
	}
}

// slowDots is section 5.2.4 of RFC 3986 for paths in which it is all that
// happens.
func slowDots(p string) string {
	var out []string
	parts := strings.Split(p[1:], "/")
	for i, s := range parts {
		if s == ".." && len(out) > 0 {
			out = out[:len(out)-1]
		}
		if s != "." && s != ".." {
			out = append(out, s)
		} else if i == len(parts)-1 {
			out = append(out, "")
		}
	}
	return "/" + strings.Join(out, "/")
}

func TestDotSegmentsFollowTheRFC(t *testing.T) {
	r := rulesOf(t, normal)
	rapid.Check(t, func(t *rapid.T) {
		p := "/" + strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", ".", "..", "", "..."})).Draw(t, "segments"), "/")
		if got, want := r.ask(ask{path: p}).get(":path"), slowDots(p); got != want {
			t.Fatalf("%s became %s, want %s", p, got, want)
		}
	})
}

// FuzzNormalize: whatever is asked for, no dot segment and no forbidden byte is
// left, and the result is its own canonical form.
func FuzzNormalize(f *testing.F) {
	for in := range measuredPaths() {
		f.Add(in)
	}
	f.Add("/%%341%4%31/%2%65/..%3b/..;a/.;/\x00\r\n%0d\xff")
	var all []*Rules
	for _, c := range []string{normal, normal + "," + merge, normal + "," + merge + `,"pathWithEscapedSlashesAction":"UNESCAPE_AND_FORWARD"`} {
		all = append(all, rulesOf(f, c))
	}
	dots := regexp.MustCompile(`/\.\.?(;[^/?]*)?(/|\?|$)`)
	f.Fuzz(func(t *testing.T, in string) {
		in = "/" + strings.ReplaceAll(in, "#", "")
		for _, r := range all {
			a := r.ask(ask{path: in})
			if a.Status != 0 {
				continue
			}
			out := a.get(":path")
			path, _, _ := strings.Cut(out, "?")
			if dots.MatchString(path) || strings.ContainsAny(path, "\x00\r\n \\\"<>") || path[0] != '/' {
				t.Fatalf("%q became %q", in, out)
			}
			if again := r.ask(ask{path: out}).get(":path"); again != out {
				t.Fatalf("%q became %q, and that %q", in, out, again)
			}
		}
	})
}

// FuzzUnescapeSlashes: it leaves no escaped slash but one that unescaping made.
func FuzzUnescapeSlashes(f *testing.F) {
	f.Add("/a%2fb%5C%2")
	f.Fuzz(func(t *testing.T, in string) {
		out := unescapeSlashes([]byte(in))
		want := regexp.MustCompile(`%(2[fF]|5[cC])`).ReplaceAllStringFunc(in, func(s string) string {
			if s[1] == '2' {
				return "/"
			}
			return `\`
		})
		if !bytes.Equal(out, []byte(want)) {
			t.Fatalf("%q became %q, want %q", in, out, want)
		}
	})
}
