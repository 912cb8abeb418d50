package http1

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// llhttpCase is one case of the llhttp project's own tests: an input, and the
// log of what its parser sees.
type llhttpCase struct {
	name, kind string
	in         string
	log        string
}

// verdict is what can be compared between two parsers.
type verdict struct {
	refused  bool
	complete int
	body     string
}

// The llhttp project's cases (test/request/*.md and test/response/*.md) in
// strict mode, from a directory named by XEBEC_LLHTTP_DIR. What it refuses must
// be refused, but for chunk extensions, whose grammar this codec does not look
// at. What it accepts may be refused for the reasons in stricterHere.
//
// Proves HC-10.
func TestLLHTTP(t *testing.T) {
	dir := os.Getenv("XEBEC_LLHTTP_DIR")
	if dir == "" {
		t.Skip("XEBEC_LLHTTP_DIR names no directory with llhttp's test/request and test/response")
	}
	total, same, stricter, looser, lenient := 0, 0, 0, 0, 0
	for _, role := range []string{"request", "response"} {
		files, err := filepath.Glob(filepath.Join(dir, role, "*.md"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no cases in %s: %v", filepath.Join(dir, role), err)
		}
		for _, f := range files {
			for _, c := range readLLHTTP(t, f) {
				if c.kind != role && c.kind != role+"-finish" {
					lenient++
					continue
				}
				total++
				want := theirVerdict(c.log)
				got, reason := ourVerdict(role, c.in, want.refused)
				switch {
				case got == want || got.refused && want.refused:
					same++
				case want.refused && strings.Contains(c.log, "in chunk extensions"):
					looser++
					t.Logf("%s: accepted here, refused there", c.name)
				case got.refused && stricterHere(reason):
					stricter++
					t.Logf("%s: refused here (%s), accepted there", c.name, reason)
				default:
					t.Errorf("%s: %q: got %+v, want %+v", c.name, c.in, got, want)
				}
			}
		}
	}
	t.Logf("%d cases: %d agree, %d are refused here only, %d there only; %d cases of lenient modes were not run", total, same, stricter, looser, lenient)
}

// stricterHere tells the reasons that are this codec's, and mostly Envoy's, alone.
func stricterHere(reason string) bool {
	for _, r := range []string{
		"a method that is not known",                     // M-SEARCH, PRI, RTSP's
		"an HTTP version that is none",                   // RTSP and ICE
		"an HTTP version that is not served",             // HTTP/0.9
		"a status line that is none",                     // HTTP/0.9
		"a response that does not begin with a version",  // RTSP, ICE, and empty lines before a response
		"a Transfer-Encoding other than chunked",         // several codings
		"a CONNECT with a Content-Length",                // Envoy's body_disallowed
		"Content-Length in a response without a body",    // 101 with a body
		"Transfer-Encoding in a response without a body", // the same
	} {
		if strings.Contains(reason, r) {
			return true
		}
	}
	return false
}

func readLLHTTP(t *testing.T, file string) []llhttpCase {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- meta=(\\{.*?\\}) -->\\s*```http\n(.*?)```[^`]*```log\n(.*?)```")
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	var cases []llhttpCase
	for _, m := range block.FindAllSubmatchIndex(text, -1) {
		var meta struct {
			Type     string
			SkipBody bool `json:"skipBody"`
		}
		if err := json.Unmarshal(text[m[2]:m[3]], &meta); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := ""
		if h := heading.FindAllSubmatch(text[:m[0]], -1); len(h) > 0 {
			name = string(h[len(h)-1][1])
		}
		if meta.SkipBody {
			meta.Type += "-skip-body"
		}
		cases = append(cases, llhttpCase{
			name: filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file) + ": " + name,
			kind: meta.Type, in: llhttpInput(string(text[m[4]:m[5]])), log: string(text[m[6]:m[7]]),
		})
	}
	return cases
}

// llhttpInput undoes how the files write input: lines end in CRLF unless a
// backslash joins them, and escapes stand for bytes.
func llhttpInput(s string) string {
	s = strings.TrimSuffix(s, "\n")
	s = strings.ReplaceAll(s, "\\\n", "")
	s = strings.ReplaceAll(s, "\n", "\r\n")
	s = strings.NewReplacer(`\r`, "\r", `\n`, "\n", `\t`, "\t", `\f`, "\f").Replace(s)
	return regexp.MustCompile(`\\x([0-9a-fA-F]+)`).ReplaceAllStringFunc(s, func(x string) string {
		n, _ := strconv.ParseUint(x[2:], 16, 8)
		return string([]byte{byte(n)})
	})
}

func theirVerdict(log string) verdict {
	v := verdict{}
	for line := range strings.SplitSeq(log, "\n") {
		if _, e, ok := strings.Cut(line, " error code="); ok {
			code, _, _ := strings.Cut(e, " ")
			n, _ := strconv.Atoi(code)
			v.refused = v.refused || n < 21 || n > 23 // those are pauses
		}
		if _, span, ok := strings.Cut(line, "span[body]="); ok {
			switch span {
			case "cr":
				v.body += "\r"
			case "lf":
				v.body += "\n"
			default:
				v.body += strings.TrimSuffix(strings.TrimPrefix(span, `"`), `"`)
			}
		}
		if strings.HasSuffix(line, "message complete") {
			v.complete++
		}
	}
	if strings.Contains(log, "Pause on CONNECT/Upgrade") {
		v.body = "" // there, a body before raw data is told apart
	}
	return v
}

// ourVerdict gives the rest of a line that the input breaks off when a fault is
// expected in it: a fault shows when its line is whole.
func ourVerdict(role, in string, complete bool) (v verdict, reason string) {
	s := setup{method: "GET", upgrade: true, o: Options{AcceptHTTP10: true, EnableTrailers: true}}
	if role == "response" {
		s.role = Client
	}
	w := newWire(s.role, &s.o, s.method, s.upgrade)
	raw := false
	rest := []byte(in)
	for len(rest) > 0 {
		ev, n, data, end, err := w.d.Next(rest, &w.h)
		if err != nil {
			v.refused = true
			return v, err.Error()
		}
		rest = rest[n:]
		switch {
		case ev == Headers && w.d.HasUpgrade() && !raw:
			raw = true
			v.complete++
		case ev == Data && !raw:
			v.body += string(data)
		case ev == Informational:
			v.complete++
		}
		if end || ev == Informational {
			w.h.Reset()
		}
		if end {
			v.complete++
			if !w.d.KeepAlive() && len(strings.Trim(string(rest), "\r\n")) > 0 {
				v.refused = true
				return v, "data behind the last message"
			}
			if s.role == Client {
				w.d.ExpectResponseTo(s.method, s.upgrade)
			}
		}
		if ev == NeedMore {
			break
		}
	}
	if raw {
		v.body = ""
	}
	if complete && len(rest) > 0 {
		if _, _, _, _, err := w.d.Next(append(rest, "\r\n\r\n"...), &w.h); err != nil {
			v.refused = true
			return v, err.Error()
		}
	}
	return v, ""
}
