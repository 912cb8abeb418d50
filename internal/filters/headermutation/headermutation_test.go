package headermutation_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
	"github.com/xebec-proxy/xebec/internal/filters/headermutation"
)

func start(t *testing.T, json string) *filtertest.Stream {
	t.Helper()
	f := filtertest.HTTP(t, headermutation.Type(), json, &filter.Env{})
	return filtertest.NewStream(0, filtertest.Filter{Name: "hm", New: f})
}

func lines(m *header.Map) string {
	return strings.ReplaceAll(strings.TrimSpace(m.String()), "\n", "; ")
}

// Proves HF-32; the results are those of Envoy 1.40.
func TestRequestMutations(t *testing.T) {
	tests := []struct{ name, mutation, head, want string }{
		{"append", `{"append":{"header":{"key":"X-A","value":"1"}}}`, "x-a: 0", "x-a: 0; x-a: 1"},
		{"append to one line", `{"append":{"header":{"key":"user-agent","value":"more"}}}`, "user-agent: curl", "user-agent: curl,more"},
		{"append a cookie", `{"append":{"header":{"key":"cookie","value":"c=2"}}}`, "cookie: c=1", "cookie: c=1; cookie: c=2"},
		{"add if absent", `{"append":{"header":{"key":"a","value":"1"},"append_action":"ADD_IF_ABSENT"}}`, "b: 1", "b: 1; a: 1"},
		{"do not add if present", `{"append":{"header":{"key":"a","value":"1"},"append_action":"ADD_IF_ABSENT"}}`, "a: 0", "a: 0"},
		{"overwrite", `{"append":{"header":{"key":"a","value":"1"},"append_action":"OVERWRITE_IF_EXISTS"}}`, "a: 0; a: 2", "a: 1"},
		{"do not overwrite if absent", `{"append":{"header":{"key":"a","value":"1"},"append_action":"OVERWRITE_IF_EXISTS"}}`, "b: 0", "b: 0"},
		{"overwrite or add", `{"append":{"header":{"key":"a","value":"1"},"append_action":"OVERWRITE_IF_EXISTS_OR_ADD"}}`, "b: 0", "b: 0; a: 1"},
		{"append: false", `{"append":{"header":{"key":"a","value":"1"},"append":false}}`, "a: 0", "a: 1"},
		{"an empty value", `{"append":{"header":{"key":"a"}}}`, "b: 0", "b: 0"},
		{"an empty value kept", `{"append":{"header":{"key":"a"},"keep_empty_value":true}}`, "b: 0", "b: 0; a: "},
		{"a format", `{"append":{"header":{"key":"a","value":"%REQ(b)%|%REQ(c)%"}}}`, "b: in v", "b: in v; a: in v|"},
		{"a format without a value", `{"append":{"header":{"key":"a","value":"%REQ(c)%"}}}`, "b: 0", "b: 0"},
		{"remove", `{"remove":"A"}`, "a: 0; b: 0; a: 1", "b: 0"},
		{"remove on match", `{"remove_on_match":{"key_matcher":{"prefix":"x-rm-"}}}`, "x-rm-1: 0; b: 0; x-rm-2: 1", "b: 0"},
		{"one after the other", `{"append":{"header":{"key":"a","value":"%REQ(a)%+"},"append_action":"OVERWRITE_IF_EXISTS"}},{"append":{"header":{"key":"b","value":"%REQ(a)%"}}}`, "a: 1", "a: 1+; b: 1+"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, `{"mutations":{"request_mutations":[`+tt.mutation+`]}}`)
			var head []string
			for f := range strings.SplitSeq(tt.head, "; ") {
				n, v, _ := strings.Cut(f, ": ")
				head = append(head, n, v)
			}
			s.Ask("", head...)
			if got := strings.TrimSuffix(lines(&s.Request), " "); got != strings.TrimSuffix(tt.want, " ") {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// Proves HF-32: parameters keep their order and spelling.
func TestQueryMutations(t *testing.T) {
	set := func(key, value, action string) string {
		return `{"append":{"record":{"key":"` + key + `","value":"` + value + `"},"action":"` + action + `"}}`
	}
	const appended, absent, exists, always = "APPEND_IF_EXISTS_OR_ADD", "ADD_IF_ABSENT", "OVERWRITE_IF_EXISTS", "OVERWRITE_IF_EXISTS_OR_ADD"
	tests := []struct{ mutation, path, want string }{
		{set("q", "v 1&%REQ(x)%", appended), "/p?c=%20x&d", "/p?c=%20x&d&q=v%201%26in"},
		{set("q", "1", appended), "/p", "/p?q=1"},
		{set("q", "1", appended), "/p?", "/p?q=1"},
		{set("q", "1", appended), "/p?q=0&z=1", "/p?q=0&z=1&q=1"},
		{set("q", "1", absent), "/p?q=0", "/p?q=0"},
		{set("q", "1", absent), "/p?qq=0", "/p?qq=0&q=1"},
		{set("q", "1", exists), "/p?a&q=0&b&q=2", "/p?a&q=1&b"},
		{set("q", "1", exists), "/p?a", "/p?a"},
		{set("q", "1", always), "/p?a", "/p?a&q=1"},
		{set("q", "%REQ(none)%", appended), "/p", "/p?q="},
		{set("q q", "1", exists), "/p?q%20q=0&q%2", "/p?q%20q=1&q%2"},
		{`{"remove":"q"}`, "/p?q&a=1&q=2", "/p?a=1"},
		{`{"remove":"q"}`, "/p?q", "/p"},
		{`{"remove":"é"}`, "/p?%c3%A9=1&x=%c3%a9", "/p?x=%c3%a9"},
	}
	for _, tt := range tests {
		s := start(t, `{"mutations":{"query_parameter_mutations":[`+tt.mutation+`]}}`)
		s.Ask("", ":path", tt.path, "x", "in")
		if got := s.Request.Path(); got != tt.want {
			t.Errorf("%s on %s: %s, want %s", tt.mutation, tt.path, got, tt.want)
		}
	}
}

// Proves HF-32: responses, trailers, and the order of levels.
func TestLevels(t *testing.T) {
	k := headermutation.Type()
	mutations := func(v string) string {
		one := `[{"append":{"header":{"key":"l","value":"` + v + `"}}},{"append":{"header":{"key":"w","value":"` + v + `"},"append_action":"OVERWRITE_IF_EXISTS_OR_ADD"}}]`
		return `"mutations":{"request_mutations":` + one + `,"response_mutations":` + one + `,"request_trailers_mutations":` + one + `,"response_trailers_mutations":` + one + `}`
	}
	levels := []any{}
	for _, v := range []string{"table", "host", "route"} {
		levels = append(levels, filtertest.Route(t, k, "{"+mutations(v)+"}"))
	}
	for wins, want := range map[string]string{
		"false": "l: filter; w: table; l: route; l: host; l: table",
		"true":  "l: filter; w: route; l: table; l: host; l: route",
	} {
		s := start(t, `{`+mutations("filter")+`,"most_specific_header_mutations_wins":`+wins+`}`)
		s.Levels = map[string][]any{"hm": levels}
		c := &s.Chain
		c.DecodeHeaders(filtertest.Headers(&s.Request), false)
		c.DecodeTrailers(filtertest.Headers(&s.Trailers))
		c.EncodeHeaders(filtertest.Headers(&s.Response), false)
		c.EncodeTrailers(filtertest.Headers(&s.ResponseTrailers))
		for what, m := range map[string]*header.Map{"request": &s.Request, "request trailers": &s.Trailers, "response": &s.Response, "response trailers": &s.ResponseTrailers} {
			if got := lines(m); got != want {
				t.Errorf("wins %s, %s: %s, want %s", wins, what, got, want)
			}
		}
	}
}

// A reply before the filter saw the request is changed, too.
func TestLocalReply(t *testing.T) {
	k := headermutation.Type()
	s := start(t, `{"mutations":{"response_mutations":[{"append":{"header":{"key":"a","value":"1"}}}]}}`)
	s.Levels = map[string][]any{"hm": {filtertest.Route(t, k, `{"mutations":{"response_mutations":[{"append":{"header":{"key":"b","value":"2"}}}]}}`)}}
	s.Chain.LocalReply(&filter.LocalReply{Status: 408})
	if s.Head.Get("a") != "1" || s.Head.Get("b") != "2" {
		t.Errorf("got %s", lines(&s.Head))
	}
}

// The errors are Envoy's where it has them.
func TestRefused(t *testing.T) {
	k := headermutation.Type()
	for json, want := range map[string]string{
		`{"request_mutations":[{"append":{"header":{"key":":path","value":"/"}}}]}`: "mutations.request_mutations[0].append.header.key: :-prefixed or host headers may not be modified",
		`{"request_mutations":[{"append":{"header":{"key":"Host","value":"h"}}}]}`:  ":-prefixed or host headers may not be modified",
		`{"response_mutations":[{"remove":"a"},{"remove":":status"}]}`:              "mutations.response_mutations[1].remove: :-prefixed or host headers may not be removed",
		`{"request_mutations":[{"append":{"header":{"key":"a b","value":"/"}}}]}`:   `"a b" is no header name`,

		`{"request_mutations":[{}]}`:                     "Action: value is required",
		`{"request_mutations":[{"remove_on_match":{}}]}`: "KeyMatcher: value is required",

		`{"request_mutations":[{"remove_on_match":{"key_matcher":{"safe_regex":{"regex":"("}}}}]}`: "mutations.request_mutations[0].remove_on_match.key_matcher",
		`{"request_mutations":[{"append":{"header":{"key":"a","value":"%FOO%"}}}]}`:                "Not supported field in StreamInfo: FOO",
		`{"query_parameter_mutations":[{}]}`:                                                       "One of 'append'/'remove' must be specified.",
		`{"query_parameter_mutations":[{"append":{}}]}`:                                            "No record specified for append mutation.",
		`{"query_parameter_mutations":[{"append":{"record":{"key":"a","value":1}}}]}`:              "Only string value is allowed for record value.",
	} {
		for _, part := range []string{"filter", "route"} {
			var err error
			if part == "filter" {
				_, err = k.New(filtertest.Config(t, k.Config, `{"mutations":`+json+`}`), &filter.Env{})
			} else {
				_, err = k.ParseRoute(filtertest.Config(t, k.RouteConfig, `{"mutations":`+json+`}`), &filter.Env{})
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %s", part, json, err, want)
			}
		}
	}
}

const typical = `{"mutations":{"request_mutations":[{"append":{"header":{"key":"x-a","value":"%REQ(:path)%!"}}},{"remove":"x-b"}],
	"response_mutations":[{"append":{"header":{"key":"x-c","value":"1"}}}],"query_parameter_mutations":[{"append":{"record":{"key":"a","value":"b"}}}]}}`

type quiet struct{ *filtertest.Stream }

func (quiet) EncodedHeaders(*header.Map, bool) {}

func exchange(s *filtertest.Stream, f filter.HTTPFactory) {
	c := &s.Chain
	c.Reset(quiet{s}, 1<<20)
	c.Grow(1)
	c.Add("hm", f)
	c.DecodeHeaders(filtertest.Headers(&s.Request, ":path", "/p?x=1", "x-b", "1"), true)
	c.EncodeHeaders(filtertest.Headers(&s.Response, ":status", "200"), true)
	c.Destroy()
}

func TestAllocations(t *testing.T) {
	pool := sync.Pool{New: func() any { return new([64]byte) }}
	if testing.AllocsPerRun(10, func() {
		for range 100 {
			pool.Put(pool.Get())
		}
	}) > 0 {
		t.Skip("pools forget on purpose under the race detector")
	}
	f := filtertest.HTTP(t, headermutation.Type(), typical, &filter.Env{})
	s := filtertest.NewStream(0)
	s.Levels = map[string][]any{"hm": {filtertest.Route(t, headermutation.Type(), typical)}}
	exchange(s, f)
	if n := testing.AllocsPerRun(100, func() { exchange(s, f) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMutations(b *testing.B) {
	f := filtertest.HTTP(b, headermutation.Type(), typical, &filter.Env{})
	s := filtertest.NewStream(0)
	b.ReportAllocs()
	for b.Loop() {
		exchange(s, f)
	}
}
