package accesslog_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/accesslog"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// cases are finished streams by name.
func cases(t *testing.T) map[string]*format.Context {
	t.Helper()
	all := map[string]*format.Context{
		"plain": stream("x-request-id", "00000032-0000"), "a1": stream("x-a", "1"), "a2": stream("x-a", "2"), "404": stream(), "dead": stream(), "nr": stream(),
		"grpc": stream("content-type", "application/grpc", ":path", "/"), "tcp": stream(), "hc": stream(),
		"id31": stream("x-request-id", "00000031-0000"), "id64": stream("x-request-id", "00000064-0000"), "id1388": stream("x-request-id", "00001388-0000"),
	}
	md, err := structpb.NewStruct(map[string]any{"s": "hello", "n": 42, "b": true, "l": []any{1, "a"}, "o": map[string]any{"i": 7}, "z": nil})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		c.Info.Metadata = map[string]*structpb.Struct{"ns": md}
	}
	all["404"].Info.ResponseCode = 404
	all["dead"].Info.ResponseCode, all["dead"].Info.Flags = 503, filter.FlagUpstreamConnectionFailure|filter.FlagUpstreamRetryLimitExceeded
	all["nr"].Info.ResponseCode, all["nr"].Info.Flags = 404, filter.FlagNoRouteFound
	all["dead"].Info.Timing.End = 700 * 1e6
	all["grpc"].Resp.Add("grpc-status", "14")
	all["tcp"].LogType, all["tcp"].Info.Metadata = "TcpConnectionEnd", nil
	all["hc"].Info.HealthCheck = true
	return all
}

const (
	everyone = "404 a1 a2 dead grpc hc id1388 id31 id64 nr plain tcp"
	ok200    = "a1 a2 grpc hc id1388 id31 id64 plain tcp"
	withMD   = "404 a1 a2 dead grpc hc id1388 id31 id64 nr plain"
)

func without(all string, names ...string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(all), func(s string) bool { return slices.Contains(names, s) }), " ")
}

func compared(op string, v int) string {
	return fmt.Sprintf(`{"comparison":{"op":%q,"value":{"default_value":%d,"runtime_key":"k"}}}`, op, v)
}

func metadata(path, value, rest string) string {
	keys := `{"key":"` + strings.Join(strings.Split(path, "/"), `"},{"key":"`) + `"}`
	return `{"metadata_filter":{"matcher":{"filter":"ns","path":[` + keys + `],"value":` + value + `}` + rest + `}}`
}

// Proves AL-14: which streams each filter lets pass, as in Envoy 1.40.
func TestFilters(t *testing.T) {
	hello := `{"string_match":{"exact":"hello"}}`
	for f, want := range map[string]string{
		`{"status_code_filter":` + compared("EQ", 200) + `}`: ok200, `{"status_code_filter":` + compared("NE", 200) + `}`: "404 dead nr",
		`{"status_code_filter":` + compared("GE", 404) + `}`: "404 dead nr", `{"status_code_filter":` + compared("LE", 404) + `}`: without(everyone, "dead"),
		`{"duration_filter":` + compared("GE", 0) + `}`: everyone, `{"duration_filter":` + compared("GE", 500) + `}`: "dead", `{"duration_filter":` + compared("EQ", 3) + `}`: without(everyone, "dead"),
		`{"not_health_check_filter":{}}`: without(everyone, "hc"),
		`{"response_flag_filter":{}}`:    "dead nr", `{"response_flag_filter":{"flags":["NR"]}}`: "nr", `{"response_flag_filter":{"flags":["UF","DC"]}}`: "dead",
		`{"grpc_status_filter":{"statuses":["UNAVAILABLE"]}}`: "dead grpc", `{"grpc_status_filter":{"statuses":["OK"]}}`: "", `{"grpc_status_filter":{"statuses":["OK"],"exclude":true}}`: everyone,
		`{"grpc_status_filter":{}}`: "", `{"grpc_status_filter":{"exclude":true}}`: everyone, `{"grpc_status_filter":{"statuses":["UNIMPLEMENTED"]}}`: "404 nr",
		`{"grpc_status_filter":{"statuses":["UNKNOWN"]}}`: without(ok200, "grpc"), `{"grpc_status_filter":{"statuses":["UNAVAILABLE"],"exclude":true}}`: without(everyone, "dead", "grpc"),
		`{"log_type_filter":{}}`: "", `{"log_type_filter":{"types":["DownstreamEnd"]}}`: without(everyone, "tcp"), `{"log_type_filter":{"types":["DownstreamEnd"],"exclude":true}}`: "tcp",
		`{"log_type_filter":{"types":["TcpConnectionEnd"]}}`:                                                      "tcp",
		`{"header_filter":{"header":{"name":"x-a","string_match":{"exact":"1"}}}}`:                                "a1",
		`{"header_filter":{"header":{"name":"x-a","string_match":{"exact":"1"},"invert_match":true}}}`:            "a2",
		`{"header_filter":{"header":{"name":"x-a","present_match":true}}}`:                                        "a1 a2",
		`{"and_filter":{"filters":[{"header_filter":{"header":{"name":"x-a"}}},{"log_type_filter":{}}]}}`:         "",
		`{"and_filter":{"filters":[{"header_filter":{"header":{"name":"x-a"}}},{"not_health_check_filter":{}}]}}`: "a1 a2",
		`{"or_filter":{"filters":[{"header_filter":{"header":{"name":"x-a"}}},{"response_flag_filter":{}}]}}`:     "a1 a2 dead nr",
		`{"or_filter":{"filters":[{"log_type_filter":{}},{"response_flag_filter":{}}]}}`:                          "dead nr",
		metadata("s", hello, ""): everyone, metadata("s", `{"string_match":{"exact":"no"}}`, ""): "tcp", metadata("s", hello, `,"match_if_key_not_found":false`): withMD,
		metadata("none", hello, ""): everyone, metadata("none", hello, `,"match_if_key_not_found":false`): "", metadata("s/x", hello, ""): everyone,
		metadata("b", `{"bool_match":true}`, `,"match_if_key_not_found":false`): withMD, metadata("n", `{"present_match":false}`, ""): "tcp", metadata("none", `{"present_match":false}`, ""): everyone,
		metadata("n", `{"double_match":{"exact":42}}`, `,"match_if_key_not_found":false`):                            withMD,
		metadata("n", `{"double_match":{"range":{"start":41,"end":42}}}`, ""):                                        "tcp",
		metadata("o/i", `{"double_match":{"exact":7}}`, `,"match_if_key_not_found":false`):                           withMD,
		metadata("z", `{"null_match":{}}`, `,"match_if_key_not_found":false`):                                        withMD,
		metadata("l", `{"list_match":{"one_of":{"string_match":{"exact":"a"}}}}`, `,"match_if_key_not_found":false`): withMD,
		`{"metadata_filter":{}}`: everyone, `{"metadata_filter":{"match_if_key_not_found":false}}`: "",
	} {
		if got := passed(t, f, accesslog.Env{}, nil); got != want {
			t.Errorf("%s:\n got %s\nwant %s", f, got, want)
		}
	}
}

// passed lists the cases whose line is written.
func passed(t *testing.T, f string, e accesslog.Env, only []string) string {
	t.Helper()
	var d disk
	e.Files = accesslog.NewFiles(accesslog.Options{OpenFile: d.open})
	cfg := parse(t, toFile("/a", "x\n"))
	cfg.Filter = parse(t, `{"filter":`+f+`}`).GetFilter()
	logs, err := accesslog.New([]*accesslogv3.AccessLog{cfg}, e)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	all, w := cases(t), e.Files.NewWorker(nil)
	var got []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if only != nil && !slices.Contains(only, name) {
			continue
		}
		logs.Log(w, all[name])
		if w.Due() {
			got = append(got, name)
			w.Flush()
		}
	}
	if err := e.Files.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(d.text("/a", 0), "x\n"); lines != len(got) {
		t.Errorf("%s: %d lines for %d streams", f, lines, len(got))
	}
	return strings.Join(got, " ")
}

// Proves AL-14: samples follow the request id, as in Envoy 1.40, or chance; the
// runtime overrides them and the numbers of comparisons.
func TestSamples(t *testing.T) {
	ids := []string{"plain", "id31", "id64", "id1388", "a1"} // a1 has no id
	rnd := func(v uint64) accesslog.Env { return accesslog.Env{Random: func() uint64 { return v }} }
	frac := func(n, d uint32) accesslog.Env {
		e := rnd(99)
		e.Runtime = func(k string) (uint32, uint32, bool) { return n, d, k == "k" }
		e.RuntimeInteger = func(k string) (uint64, bool) { return 404, k == "k" }
		return e
	}
	share := func(n int, rest string) string {
		return fmt.Sprintf(`{"runtime_filter":{"runtime_key":"k","percent_sampled":{"numerator":%d%s}}}`, n, rest)
	}
	for _, x := range []struct {
		filter string
		env    accesslog.Env
		want   string
	}{
		{share(50, ""), rnd(99), "id1388 id31 id64"},
		{share(50, ""), rnd(0), "a1 id1388 id31 id64"},
		{share(51, ""), rnd(99), "id1388 id31 id64 plain"},
		{share(5000, `,"denominator":"TEN_THOUSAND"`), rnd(9999), "id31 id64 plain"},
		{share(50, `,"denominator":"MILLION"`), rnd(99), "id31"},
		{`{"runtime_filter":{"runtime_key":"k"}}`, rnd(0), ""},
		{`{"runtime_filter":{"runtime_key":"k","percent_sampled":{"numerator":50},"use_independent_randomness":true}}`, rnd(49), "a1 id1388 id31 id64 plain"},
		{`{"runtime_filter":{"runtime_key":"k","percent_sampled":{"numerator":50},"use_independent_randomness":true}}`, rnd(50), ""},
		{share(50, ""), frac(0, 100), ""},
		{share(0, ""), frac(100, 100), "a1 id1388 id31 id64 plain"},
		{`{"runtime_filter":{"runtime_key":"other"}}`, frac(100, 100), ""},
		{`{"status_code_filter":` + compared("EQ", 200) + `}`, frac(0, 100), ""},
	} {
		if got := passed(t, x.filter, x.env, ids); got != x.want {
			t.Errorf("%s: %q, want %q", x.filter, got, x.want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	for f, want := range map[string]string{
		`{}`:                                  "access_log[0].filter: the filter has no kind; write one, such as status_code_filter",
		`{"traceable_filter":{}}`:             "access_log[0].filter.traceable_filter: tracing is not built; remove the filter",
		`{"extension_filter":{"name":"cel"}}`: `access_log[0].filter.extension_filter: the filter "cel" () is not built; remove it`,
		`{"response_flag_filter":{"flags":["NR","XX"]}}`:                                        `access_log[0].filter.response_flag_filter.flags[1]: "XX" is no response flag`,
		`{"status_code_filter":{}}`:                                                             "access_log[0].filter.status_code_filter.comparison.value: a value is needed",
		`{"duration_filter":{"comparison":{"op":9,"value":{"default_value":1}}}}`:               "access_log[0].filter.duration_filter.comparison.op: 9 is no operation; write EQ, GE, LE or NE",
		`{"or_filter":{"filters":[{"log_type_filter":{}},{"traceable_filter":{}}]}}`:            "access_log[0].filter.or_filter.filters[1].traceable_filter: tracing is not built; remove the filter",
		`{"header_filter":{"header":{"name":"x","string_match":{"safe_regex":{"regex":"("}}}}}`: "access_log[0].filter.header_filter.header.string_match.safe_regex: invalid regular expression",
		`{"metadata_filter":{"matcher":{"filter":"a","path":[{"key":"k"}]}}}`:                   "access_log[0].filter.metadata_filter.matcher.value: no kind of value is given",
		`{"metadata_filter":{"matcher":{"filter":"a","path":[{"key":"k"}],"invert":true}}}`:     "access_log[0].filter.metadata_filter.matcher.invert: Envoy takes it and does nothing; remove it",
	} {
		var d disk
		files := closing(t, accesslog.Options{OpenFile: d.open})
		cfg := parse(t, toFile("/a", "x\n"))
		cfg.Filter = parse(t, `{"filter":`+f+`}`).GetFilter()
		if _, err := accesslog.New([]*accesslogv3.AccessLog{cfg}, accesslog.Env{Files: files}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s:\n got %v\nwant %s", f, err, want)
		}
		if len(d.opened) != 0 {
			t.Errorf("%s: a refused log opened its file", f)
		}
	}
}
