package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// Proves AD-01 and AD-05: which methods, statuses, media types and texts there
// are. The texts are those that Envoy 1.40 answered.
func TestAdminAnswers(t *testing.T) {
	r := start(t, small+adminHere)
	const text, jsonType = "text/plain; charset=UTF-8", "application/json"
	for _, c := range []struct {
		method, path, form string
		status             int
		kind, body         string
	}{
		{"GET", "/ready", "", 200, text, "LIVE\n"},
		{"POST", "/ready", "", 200, text, "LIVE\n"},
		{"HEAD", "/ready", "", 200, text, ""},
		{"GET", "/logging", "", 405, text, "Method GET not allowed, POST required."},
		{"GET", "/quitquitquit", "", 405, text, "Method GET not allowed, POST required."},
		{"PUT", "/reset_counters", "", 405, text, "Method PUT not allowed, POST required."},
		{"GET", "/healthcheck/fail", "", 405, text, "Method GET not allowed, POST required."},
		{"POST", "/reset_counters", "", 200, text, "OK\n"},
		{"POST", "/reopen_logs", "", 200, text, "OK\n"},
		{"POST", "/stats/recentlookups/clear", "", 200, text, "OK\n"},
		{"GET", "/hot_restart_version", "", 200, text, "disabled"},
		{"GET", "/runtime", "", 200, jsonType, "{\n \"entries\": {},\n \"layers\": []\n}\n"},
		{"POST", "/runtime_modify?a=1", "", 503, text, "No admin layer specified"},
		{"POST", "/runtime_modify", "a=1", 503, text, "No admin layer specified"},
		{"GET", "/clusters?filter=(", "", 400, text, "Invalid re2 regex"},
		{"GET", "/stats?filter=(", "", 400, text, "Invalid re2 regex: missing ): ("},
		{"GET", "/stats?filter=^cluster_manager.*clusters$", "", 200, text, "cluster_manager.active_clusters: 2\ncluster_manager.warming_clusters: 0\n"},
		{"GET", "/stats?filter=^nothing", "", 200, text, ""},
		{"GET", "/stats/prometheus?filter=cluster_manager.active_clusters", "", 200, text, "# TYPE envoy_cluster_manager_active_clusters gauge\nenvoy_cluster_manager_active_clusters{} 2\n"},
		{"GET", "/config_dump?mask=xx", "", 400, "text/plain", "FieldMask xx could not be successfully applied to any configs."},
		{"GET", "/config_dump?mask=static_clusters.cluster.name", "", 400, "text/plain", "FieldMask static_clusters.cluster.name could not be successfully applied to any configs."},
		{"GET", "/config_dump?resource=xx", "", 404, "text/plain", "xx not found in config dump"},
		{"GET", "/config_dump?resource=static_endpoint_configs", "", 404, "text/plain", "static_endpoint_configs not found in config dump"},
		{"GET", "/config_dump?resource=bootstrap", "", 400, "text/plain", "bootstrap is not a repeated field. Use ?mask=bootstrap to get only this field"},
		{"GET", "/config_dump?name_regex=(", "", 400, "text/plain", "INVALID_ARGUMENT: Error while parsing name_regex from (: missing ): ("},
		{"GET", "/config_dump?resource=dynamic_active_clusters", "", 200, jsonType, "{}\n"},
	} {
		a := r.ask(t, c.method, c.path, c.form)
		if a.status != c.status || a.kind != c.kind || a.body != c.body {
			t.Errorf("%s %s: %d %s %q, want %d %s %q", c.method, c.path, a.status, a.kind, a.body, c.status, c.kind, c.body)
		}
		if a.header.Get("Cache-Control") != "no-cache, max-age=0" || a.header.Get("X-Content-Type-Options") != "nosniff" || a.header.Get("Server") != "envoy" {
			t.Errorf("%s %s: headers %v", c.method, c.path, a.header)
		}
	}
}

// Proves AD-01: an unknown path is answered with the list of what there is, and
// that the list is complete.
func TestAdminHelp(t *testing.T) {
	r := start(t, small+adminHere)
	help := r.get(t, "/help")
	for _, path := range []string{"/nosuch", "/stats/", "/READY", "//"} {
		if a := r.ask(t, "GET", path, ""); a.status != 404 || a.body != "invalid path. "+help {
			t.Errorf("GET %s: %d %q", path, a.status, a.body)
		}
	}
	page := r.ask(t, "GET", "/", "")
	if page.kind != "text/html; charset=UTF-8" || page.status != 200 {
		t.Errorf("GET /: %d %s", page.status, page.kind)
	}
	listed := regexp.MustCompile(`(?m)^  (/\S*)( \(POST\))?: `).FindAllStringSubmatch(help, -1)
	if len(listed) < 20 {
		t.Fatalf("%d endpoints listed: %s", len(listed), help)
	}
	for _, l := range listed {
		if name := strings.TrimPrefix(l[1], "/"); name != "" && !strings.Contains(page.body, ">"+name+"<") {
			t.Errorf("%s is not on the page", l[1])
		}
		if post := l[2] != ""; post || l[1] == "/" {
			continue
		}
		if a := r.ask(t, "GET", l[1], ""); a.status != 200 {
			t.Errorf("GET %s: %d %s", l[1], a.status, a.body)
		}
	}
}

// What Envoy has and this version has not is refused by name.
func TestAdminNotBuilt(t *testing.T) {
	r := start(t, small+adminHere)
	for _, path := range []string{
		"/allocprofiler", "/heapprofiler",
		"/memory/tcmalloc", "/peak_heap_dump", "/tap",
	} {
		name, _, _ := strings.Cut(path, "?")
		if a := r.ask(t, "POST", path, ""); a.status != 501 || !strings.HasPrefix(a.body, name+" is known but not built in this version: ") {
			t.Errorf("POST %s: %d %q", path, a.status, a.body)
		}
	}
}

// Proves AD-07: real ports, in text and JSON.
func TestAdminListeners(t *testing.T) {
	r := start(t, small+adminHere)
	addresses := r.Listeners()["front"]
	if len(addresses) != 2 || addresses[0] == addresses[1] || strings.HasSuffix(addresses[0], ":0") {
		t.Fatalf("addresses %v", addresses)
	}
	if got, want := r.get(t, "/listeners"), "front::"+addresses[0]+"\nfront::"+addresses[1]+"\n"; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	var l adminv3.Listeners
	if err := protojson.Unmarshal([]byte(r.get(t, "/listeners?format=json")), &l); err != nil {
		t.Fatal(err)
	}
	for i, a := range []string{l.GetListenerStatuses()[0].GetLocalAddress().String(), l.GetListenerStatuses()[0].GetAdditionalLocalAddresses()[0].String()} {
		if port := netip.MustParseAddrPort(addresses[i]).Port(); !strings.Contains(a, "127.0.0.1") || !regexp.MustCompile(`port_value:`+jsonText(t, port)+`\b`).MatchString(a) {
			t.Errorf("address %d is %s, want %s", i, a, addresses[i])
		}
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Proves AD-03: the answer is envoy.admin.v3.ServerInfo.
func TestAdminServerInfo(t *testing.T) {
	r := start(t, small+adminHere, func(f *proxyrun.Flags, _ *proxy.Options) { f.ServiceZone = "z9" })
	var i adminv3.ServerInfo
	if err := protojson.Unmarshal([]byte(r.get(t, "/server_info")), &i); err != nil {
		t.Fatal(err)
	}
	if i.GetVersion() != "v1.2.3" || i.GetState() != adminv3.ServerInfo_LIVE || i.GetCommandLineOptions().GetConcurrency() != 1 ||
		i.GetCommandLineOptions().GetServiceZone() != "z9" || i.GetNode().GetId() != "me" || i.GetNode().GetLocality().GetZone() != "z9" ||
		i.GetNode().GetUserAgentName() != "xebec" || len(i.GetNode().GetExtensions()) == 0 {
		t.Errorf("%v", &i)
	}
}

// Proves AD-16.
func TestAdminMemory(t *testing.T) {
	r := start(t, small+adminHere)
	var m adminv3.Memory
	if err := protojson.Unmarshal([]byte(r.get(t, "/memory")), &m); err != nil {
		t.Fatal(err)
	}
	if m.GetAllocated() == 0 || m.GetHeapSize() < m.GetAllocated() || m.GetTotalPhysicalBytes() == 0 {
		t.Errorf("%v", &m)
	}
}

// Proves AD-11: levels are shown and changed, and lines of the level appear.
func TestAdminLogging(t *testing.T) {
	r := start(t, small+adminHere)
	list := func(changed map[string]string) string {
		var b strings.Builder
		b.WriteString("active loggers:\n")
		for _, c := range []string{"admin", "config", "connection", "file", "filter", "http", "main", "router", "stats", "upstream"} {
			level := "info"
			if l, ok := changed[c]; ok {
				level = l
			}
			b.WriteString("  " + c + ": " + level + "\n")
		}
		return b.String() + "\n"
	}
	for _, c := range []struct {
		query  string
		status int
		error  string
		want   map[string]string
	}{
		{"", 200, "", nil},
		{"?http=debug", 200, "", map[string]string{"http": "debug"}},
		{"?paths=http:warning,router:trace", 200, "", map[string]string{"http": "warning", "router": "trace"}},
		{"?nosuch=debug", 400, "unknown logger name", map[string]string{"http": "warning", "router": "trace"}},
		{"?paths=http:debug,router:loud", 400, "unknown logger level", map[string]string{"http": "warning", "router": "trace"}},
		{"?level=loud", 400, "unknown logger level", map[string]string{"http": "warning", "router": "trace"}},
		{"?level=info&http=debug", 400, "invalid number of parameters", map[string]string{"http": "warning", "router": "trace"}},
		{"?level=", 200, "", map[string]string{"http": "warning", "router": "trace"}},
		{"?level=info", 200, "", nil},
	} {
		a := r.ask(t, "POST", "/logging"+c.query, "")
		if a.status != c.status || !strings.HasSuffix(a.body, list(c.want)) || (c.error != "" && !strings.HasPrefix(a.body, "error: "+c.error+"\n")) {
			t.Errorf("%s: %d %q", c.query, a.status, a.body)
		}
	}
	if r.ask(t, "POST", "/logging?admin=off", ""); r.levels.Level("admin") != proxyrun.LevelOff {
		t.Errorf("level %v", r.levels.Level("admin"))
	}
}

// Proves AD-12: layers and entries are shown, and a change takes effect at once.
func TestAdminRuntime(t *testing.T) {
	r := start(t, small+adminHere+`
layered_runtime: {layers: [{name: base, static_layer: {some: {key: 5}}}, {name: live, admin_layer: {}}]}
`)
	front := r.Listeners()["front"][0]
	if got := r.request(t, front, "GET", "/", "").body; got != "old" {
		t.Fatalf("before: %q", got)
	}
	if a := r.ask(t, "POST", "/runtime_modify?new.way=100&other=x", ""); a.status != 200 || a.body != "OK\n" {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if got := r.request(t, front, "GET", "/", "").body; got != "new" {
		t.Errorf("with new.way=100: %q", got)
	}
	const want = `{
 "entries": {
  "new.way": {
   "final_value": "100",
   "layer_values": [
    "",
    "100"
   ]
  },
  "some.key": {
   "final_value": "5",
   "layer_values": [
    "5",
    ""
   ]
  }
 },
 "layers": [
  "base",
  "live"
 ]
}
`
	if a := r.ask(t, "POST", "/runtime_modify", "other=&more="); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if diff := cmp.Diff(want, r.get(t, "/runtime")); diff != "" {
		t.Error(diff)
	}
	if got := r.get(t, "/stats?filter=^runtime.(admin|num|load_s)"); got != "runtime.admin_overrides_active: 1\nruntime.load_success: 3\nruntime.num_keys: 2\nruntime.num_layers: 2\n" {
		t.Errorf("%s", got)
	}
	if a := r.ask(t, "POST", "/runtime_modify", ""); a.status != 400 || !strings.HasPrefix(a.body, "usage: /runtime_modify?key1=value1") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// waiting is a resolver that answers when it is told to.
type waiting struct{ asked, answer chan struct{} }

func (w waiting) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	select {
	case w.asked <- struct{}{}:
	default:
	}
	select {
	case <-w.answer:
	case <-ctx.Done():
	}
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// Proves AD-02: 503 while a cluster is waited for, and then a listener's routes,
// which are told apart as Envoy does; then 200.
func TestAdminReady(t *testing.T) {
	w, src := waiting{make(chan struct{}, 1), make(chan struct{})}, newSource()
	r := begin(t, strings.Replace(discovered, "  clusters:\n", `  clusters:
  - name: slow
    type: STRICT_DNS
    load_assignment: {cluster_name: slow, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: name.test, port_value: 1}}}}]}]}
`, 1), src.by, func(_ *proxyrun.Flags, o *proxy.Options) { o.Resolver = w })
	says := func(status int, state, number string) {
		t.Helper()
		if a := r.ask(t, "GET", "/ready", ""); a.status != status || a.body != state+"\n" {
			t.Errorf("%d %q, want %d %s", a.status, a.body, status, state)
		}
		live := map[int]string{200: "1", 503: "0"}[status]
		if got := r.get(t, "/stats?filter=^server.(live|state)$"); got != "server.live: "+live+"\nserver.state: "+number+"\n" {
			t.Errorf("%q", got)
		}
	}
	<-w.asked
	says(503, "PRE_INITIALIZING", "2")
	close(w.answer)
	r.becomesStat(t, "server.state", "3")
	says(503, "INITIALIZING", "3")
	must(t, r.Resources().SetRoutes(nil, saying("rc", "one"), "1"))
	<-r.Ready()
	says(200, "LIVE", "0")
}

// Proves AD-15: the answer comes, and the proxy ends without an error.
func TestAdminQuit(t *testing.T) {
	r := start(t, small+adminHere)
	if a := r.ask(t, "POST", "/quitquitquit", ""); a.status != 200 || a.body != "OK\n" {
		t.Errorf("%d %q", a.status, a.body)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
}

// Proves AD-15: counters go to zero, gauges stay.
func TestAdminResetCounters(t *testing.T) {
	r := start(t, small+adminHere)
	r.request(t, r.Listeners()["front"][0], "GET", "/", "")
	const query = "/stats?filter=^(http.in.downstream_rq_2xx|cluster_manager.active_clusters)$"
	if got := r.get(t, query); got != "cluster_manager.active_clusters: 2\nhttp.in.downstream_rq_2xx: 1\n" {
		t.Errorf("before: %q", got)
	}
	r.ask(t, "POST", "/reset_counters", "")
	if got := r.get(t, query); got != "cluster_manager.active_clusters: 2\nhttp.in.downstream_rq_2xx: 0\n" {
		t.Errorf("after: %q", got)
	}
}

// Proves BS-43: paths that are not allowed, with their query.
func TestAdminAllowPaths(t *testing.T) {
	r := start(t, small+`
admin:
  address: {socket_address: {address: 127.0.0.1, port_value: 0}}
  allow_paths: [{exact: /ready}, {prefix: /stats}, {safe_regex: {regex: "/li.*s"}}, {suffix: _INFO, ignore_case: true}, {contains: cert}]
`)
	for path, want := range map[string]int{
		"/ready": 200, "/stats?usedonly": 200, "/listeners": 200, "/server_info": 200, "/certs": 200,
		"/ready?x": 403, "/memory": 403, "/nosuch": 403, "/listeners?format=json": 403,
	} {
		if a := r.ask(t, "GET", path, ""); a.status != want || (want == 403 && a.body != "request to path "+path+" not allowed") {
			t.Errorf("%s: %d %q", path, a.status, a.body)
		}
	}
}

// Proves BS-43: no admin endpoints, the address file, the warning, and what is
// wrong with an address.
func TestAdminAddress(t *testing.T) {
	if r := start(t, small); r.AdminAddress() != "" {
		t.Errorf("an address without admin: %s", r.AdminAddress())
	}
	file := filepath.Join(t.TempDir(), "address")
	toFile := func(f *proxyrun.Flags, _ *proxy.Options) { f.AdminAddressPath = file }
	r := start(t, small+adminHere, toFile)
	if got, err := os.ReadFile(file); err != nil || string(got) != r.AdminAddress() || strings.Contains(r.log.String(), "admin") {
		t.Errorf("file %q, error %v, address %s, log %s", got, err, r.AdminAddress(), r.log)
	}
	r = start(t, small+"\nadmin: {address: {socket_address: {address: 0.0.0.0, port_value: 0}}}\n")
	if !strings.Contains(r.log.String(), "warning admin: the admin endpoints can be reached from other machines") {
		t.Errorf("log %q", r.log)
	}
	for text, want := range map[string]string{
		"{socket_address: {address: here, port_value: 1}}":                     "admin.address.socket_address.address: malformed IP address: here",
		"{socket_address: {address: 127.0.0.1, port_value: 1, protocol: UDP}}": "admin.address.socket_address.protocol",
	} {
		loaded, o, _ := load(t, small+"\nadmin: {address: "+text+"}\n")
		if _, err := proxy.New(loaded.Bootstrap, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
}

// Proves BS-52: an address file that cannot be written leaves nothing bound.
func TestAdminAddressFileFails(t *testing.T) {
	loaded, o, _ := load(t, small+adminHere, func(f *proxyrun.Flags, _ *proxy.Options) {
		f.AdminAddressPath = filepath.Join(t.TempDir(), "no", "file")
	})
	p, err := proxy.New(loaded.Bootstrap, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot open admin address output file") {
		t.Errorf("error %v", err)
	}
}

// Proves AD-19: the endpoints have statistics and an access log of their own,
// which reopen_logs opens anew (AD-15).
func TestAdminAccessLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "admin.log")
	r := start(t, small+adminHere+`
  access_log:
  - name: envoy.access_loggers.file
    typed_config:
      "@type": type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog
      path: `+file+`
      log_format: {text_format_source: {inline_string: "%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS% %BYTES_SENT% %DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% %REQ(X-FORWARDED-FOR)%\n"}}
`)
	r.get(t, "/ready")
	r.ask(t, "GET", "/nosuch", "")
	r.ask(t, "HEAD", "/ready", "")
	got := r.get(t, "/stats?filter=^(http|listener).admin.*(rq_(total|2xx|4xx|active)|cx_total)$")
	const want = `http.admin.downstream_cx_total: 4
http.admin.downstream_rq_2xx: 2
http.admin.downstream_rq_4xx: 1
http.admin.downstream_rq_active: 1
http.admin.downstream_rq_total: 4
listener.admin.downstream_cx_total: 4
listener.admin.http.admin.downstream_rq_2xx: 2
listener.admin.http.admin.downstream_rq_4xx: 1
listener.admin.main_thread.downstream_cx_total: 4
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(log)), "\n")
	if len(lines) != 4 || lines[0] != "GET /ready HTTP/1.1 200 admin_filter_response 5 127.0.0.1 127.0.0.1" || !strings.HasPrefix(lines[1], "GET /nosuch HTTP/1.1 404 ") {
		t.Errorf("log %q", lines)
	}
}

// Proves AD-15: logs that were moved away are opened anew, the program's too.
func TestAdminReopenLogs(t *testing.T) {
	opened := make(chan struct{}, 1)
	file := filepath.Join(t.TempDir(), "admin.log")
	r := start(t, small+adminHere+"\n  access_log_path: "+file+"\n", func(_ *proxyrun.Flags, o *proxy.Options) {
		o.ReopenLog = func() error { opened <- struct{}{}; return nil }
	})
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	if a := r.ask(t, http.MethodPost, "/reopen_logs", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-opened
	r.get(t, "/ready")
	r.stop()
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || !strings.Contains(string(b), `"GET /ready HTTP/1.1" 200 - 0 5 `) {
		t.Errorf("log %q, error %v", b, err)
	}
}
