package edge

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
)

// Proves HC-51.
func TestHostAndPath(t *testing.T) {
	for _, tc := range []struct {
		name, config string
		q            ask
		status       int
		details      string
	}{
		{"no host", "", ask{host: "none"}, 400, "missing_host_header"},
		{"no host and no path", "", ask{host: "none", path: "none"}, 400, "missing_host_header"},
		{"empty host", "", ask{host: "empty"}, 0, ""},
		{"no path", "", ask{path: "none"}, 404, "missing_path_rejected"},
		{"empty path", "", ask{path: "empty"}, 404, "missing_path_rejected"},
		{"asterisk", "", ask{path: "*", method: "OPTIONS"}, 404, "absolute_path_rejected"},
		{"query only", "", ask{path: "?q"}, 404, "absolute_path_rejected"},
		{"absolute", "", ask{path: "http://h/"}, 404, "absolute_path_rejected"},
		{"connect", "", ask{method: "CONNECT"}, 0, ""},
		{"extended connect", "", ask{method: "CONNECT", path: "/chat", protocol: filter.HTTP2}, 0, ""},
		{"extended connect without path", "", ask{method: "CONNECT", path: "empty", protocol: filter.HTTP2}, 404, "missing_path_rejected"},
		{"https on plain text", remote, ask{lines: []string{":scheme: https"}}, 403, "http1.https_url_on_plaintext_connection"},
		{"https on TLS", remote, ask{tls: &filter.TLSInfo{}, lines: []string{":scheme: https"}}, 0, ""},
		{"https on plain text behind a proxy", remote + `,"xffNumTrustedHops":1`, ask{lines: []string{":scheme: https"}}, 0, ""},
		{"https on plain text inside", "", ask{lines: []string{":scheme: https"}}, 0, ""},
		{"https on plain HTTP/2", remote, ask{protocol: filter.HTTP2, lines: []string{":scheme: https"}}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := rulesOf(t, tc.config).ask(tc.q)
			if a.Status != tc.status || a.Details != tc.details {
				t.Errorf("%d %s, want %d %s", a.Status, a.Details, tc.status, tc.details)
			}
			if a.Status == 403 && (a.Body != "Forbidden" || !a.Close || a.Flag != filter.FlagDownstreamProtocolError) {
				t.Errorf("%+v", a.Verdict)
			}
		})
	}
}

// Proves HC-41. 8080 is the port of the listener.
func TestHostStripping(t *testing.T) {
	const match, every, dot = `"stripMatchingHostPort":true`, `"stripAnyHostPort":true`, `"stripTrailingHostDot":true`
	configs := []string{match, every, dot, dot + "," + every, dot + "," + match}
	for in, want := range map[string][5]string{
		"x.example:8080":  {"x.example", "x.example", "x.example:8080", "x.example", "x.example"},
		"x.example:80":    {"x.example:80", "x.example", "x.example:80", "x.example", "x.example:80"},
		"x.example:":      {"x.example:", "x.example:", "x.example:", "x.example:", "x.example:"},
		"x.example:abc":   {"x.example:abc", "x.example:abc", "x.example:abc", "x.example:abc", "x.example:abc"},
		"x.example":       {"x.example", "x.example", "x.example", "x.example", "x.example"},
		"x.example.":      {"x.example.", "x.example.", "x.example", "x.example", "x.example"},
		"x.example.:8080": {"x.example.", "x.example.", "x.example:8080", "x.example", "x.example"},
		"x.example.:80":   {"x.example.:80", "x.example.", "x.example:80", "x.example", "x.example:80"},
		"[::1]:8080":      {"[::1]", "[::1]", "[::1]:8080", "[::1]", "[::1]"},
		"[::1]":           {"[::1]", "[::1]", "[::1]", "[::1]", "[::1]"},
		"[::1].":          {"[::1].", "[::1].", "[::1]", "[::1]", "[::1]"},
		"x..":             {"x..", "x..", "x.", "x.", "x."},
		".":               {".", ".", "", "", ""},
		"x:99999":         {"x:99999", "x", "x:99999", "x", "x:99999"},
		"x:080":           {"x:080", "x", "x:080", "x", "x:080"},
		"x:08080":         {"x", "x", "x:08080", "x", "x"},
		"u@x:8080":        {"u@x", "u@x", "u@x:8080", "u@x", "u@x"},
		"a:b:8080":        {"a:b", "a:b", "a:b:8080", "a:b", "a:b"},
		"..:1":            {"..:1", "..", ".:1", ".", ".:1"},
	} {
		for i, c := range configs {
			for _, method := range []string{"GET", "CONNECT"} {
				if got := rulesOf(t, c).ask(ask{host: in, method: method}).get(":authority"); got != want[i] {
					t.Errorf("%s %s with %s: %q, want %q", method, in, c, got, want[i])
				}
			}
		}
	}
}

// Proves HC-16: who answers Expect.
func TestExpect(t *testing.T) {
	for _, tc := range []struct {
		config, value string
		answer        bool
	}{
		{"", "100-continue", true},
		{"", "100-Continue", true},
		{"", "foo", false},
		{"", "", false},
		{`"proxy100Continue":true`, "100-continue", false},
	} {
		a := rulesOf(t, tc.config).ask(ask{lines: []string{"expect: " + tc.value}})
		if a.Expect100 != tc.answer || a.h.Has("expect") == tc.answer {
			t.Errorf("%s %q: answered %t, kept %t", tc.config, tc.value, a.Expect100, a.h.Has("expect"))
		}
	}
	if a := rulesOf(t, "").ask(ask{lines: []string{"expect: 100-continue", "expect: foo"}}); a.Expect100 || a.get("expect") != "100-continue,foo" {
		t.Errorf("answered %t, kept %s", a.Expect100, a.get("expect"))
	}
}

// Proves HC-29: TE, alone and nominated by Connection.
func TestTE(t *testing.T) {
	for v, want := range map[string][2]string{
		"trailers": {"trailers", "trailers"}, "gzip": {"-", "-"}, "trailers, gzip": {"trailers", "trailers"}, "gzip;q=1, trailers": {"trailers", "trailers"},
		"Trailers": {"-", "trailers"}, "TRAILERS;q=0.5": {"-", "-"}, "trailers;q=0": {"-", "-"}, "deflate": {"-", "-"}, "": {"", "-"}, "trailersx": {"-", "-"},
	} {
		r := rulesOf(t, "")
		if got := r.ask(ask{lines: []string{"te: " + v}}).get("te"); got != want[0] {
			t.Errorf("te %q became %q, want %q", v, got, want[0])
		}
		if got := r.ask(ask{lines: []string{"te: " + v, "connection: TE"}}).get("te"); got != want[1] {
			t.Errorf("te %q with connection: te became %q, want %q", v, got, want[1])
		}
	}
	if got := rulesOf(t, "").ask(ask{lines: []string{"te: gzip", "te: trailers"}}).get("te"); got != "trailers" {
		t.Errorf("two fields became %q", got)
	}
}

// Proves HC-29: Connection, what it names, and its kin.
func TestHopByHop(t *testing.T) {
	always := []string{"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "x-envoy-internal"}
	for value, gone := range map[string]string{
		"close": "", "keep-alive": "", "Keep-Alive": "", "x-a": "x-a", "x-a, x-b": "x-a x-b", "X-A": "x-a", "te": "", "te, x-a": "x-a", "upgrade": "", "foo": "",
		"": "", "x-a,,x-b": "x-a x-b", ",": "", "cookie": "cookie", "Content-Type": "content-type", "authorization": "authorization",
		"x-forwarded-port": "x-forwarded-port", ":path, :method": "", "x-a x-b": "", " x-b\t": "x-b",
	} {
		a := rulesOf(t, "").ask(ask{lines: []string{
			"connection: " + value, "x-a: 1", "x-b: 2", "te: trailers", "keep-alive: 3", "proxy-connection: 4", "transfer-encoding: chunked", "upgrade: h3",
			"content-type: ct", "cookie: c", "authorization: z", "x-forwarded-port: 5", "x-a: 6", "x-envoy-internal: true",
		}})
		for n := range strings.FieldsSeq("x-a x-b te content-type cookie authorization x-forwarded-port :path :method") {
			if want := !strings.Contains(" "+gone+" ", " "+n+" "); a.h.Has(n) != want {
				t.Errorf("connection %q: %s is there %t, want %t", value, n, a.h.Has(n), want)
			}
		}
		for _, n := range always {
			if a.h.Has(n) {
				t.Errorf("connection %q: %s stayed", value, n)
			}
		}
	}
	a := rulesOf(t, "").ask(ask{lines: []string{"connection: x-a", "connection: x-b", "x-a: 1", "x-b: 2", "x-c: 3"}})
	if a.h.Has("x-a") || a.h.Has("x-b") || !a.h.Has("x-c") {
		t.Errorf("two Connection fields left\n%s", a.h.String())
	}
}

// Proves HC-43: an upgrade's headers go on as they are.
func TestUpgradeHeaders(t *testing.T) {
	lines := []string{"connection: Upgrade, x-a", "upgrade: WebSocket", "x-a: 1", "te: trailers", "keep-alive: 2"}
	a := rulesOf(t, "").ask(ask{upgrade: true, lines: lines})
	if a.UpgradeType != "websocket" || a.get("connection") != "Upgrade, x-a" || a.get("upgrade") != "WebSocket" || a.get("x-a") != "1" || a.h.Has("keep-alive") {
		t.Errorf("type %q\n%s", a.UpgradeType, a.h.String())
	}
	if a = rulesOf(t, "").ask(ask{lines: lines}); a.UpgradeType != "" || a.h.Has("upgrade") || a.h.Has("x-a") {
		t.Errorf("not asked for, yet type %q\n%s", a.UpgradeType, a.h.String())
	}
	if a = rulesOf(t, "").ask(ask{method: "CONNECT", upgrade: true}); a.UpgradeType != "connect" {
		t.Errorf("CONNECT has type %q", a.UpgradeType)
	}
}

// A Referer that is no URL, or has what it must not have, is removed.
func TestReferer(t *testing.T) {
	for _, v := range []string{
		"", "a", "http://foo/bar", "https://h", "ftp://h/", "/rel", "HTTP://h", "http://[::1]/x", "android-app://x", `http://h/"`, "http://h/{}", "http://h?x",
		"http://h:80", "http://h:0", "h/x:y", `http://h/a\b`, "http://h/?a=b#", "http://h/|^`<>", "/?q=:x", "//h/x", "@",
	} {
		if !rulesOf(t, "").ask(ask{lines: []string{"referer: " + v}}).h.Has("referer") {
			t.Errorf("%q was removed", v)
		}
	}
	for _, v := range []string{
		"http://u:p@h/x", "http://", "http:///x", "http://h/x y", "http://h:99999/", "foo bar", "about:blank", "http://h/#f", `https://h\x`, "http://h/\xff", "http://h:",
		"http://[::1", "/a b", "/a#b", "/\xff", `/"`, `/a\b`, "1http://h", "://h", "http:/h", "mailto:a", "http://h_h/", "a?b#", "/{}|^`<>", "http://h,a/",
		"http://a b/", "http://h/\tx", "h:80", "http://h%41/", "http://[zz]/",
	} {
		if rulesOf(t, "").ask(ask{lines: []string{"referer: " + v}}).h.Has("referer") {
			t.Errorf("%q stayed", v)
		}
	}
}

// What the rules add comes in Envoy's order.
func TestRequestOrder(t *testing.T) {
	want := ":method: GET\n:path: /\n:authority: h.example\nx-forwarded-for: 192.0.2.5\nx-forwarded-proto: http\nx-forwarded-port: 8080\n:scheme: http\n" +
		"x-envoy-downstream-service-cluster: clu\nuser-agent: clu\nx-envoy-downstream-service-node: nodeid\nvia: pr\nx-envoy-external-address: 192.0.2.5\nx-request-id: " + fixedID + "\n"
	a := rulesOf(t, remote+`,"appendXForwardedPort":true,"addUserAgent":true,"via":"pr"`).ask(ask{})
	if got := a.h.String(); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// Proves HC-27: via. Partly proves HC-53: add_user_agent.
func TestViaAndUserAgent(t *testing.T) {
	for _, tc := range []struct {
		config string
		lines  []string
		name   string
		want   string
	}{
		{`"via":"pr"`, nil, "via", "pr"},
		{`"via":"pr"`, []string{"via: a"}, "via", "a, pr"},
		{`"via":"pr"`, []string{"via: "}, "via", "pr"},
		{`"via":"pr"`, []string{"via: a", "via: b"}, "via", "a,b, pr"},
		{"", nil, "user-agent", "-"},
		{`"addUserAgent":true`, nil, "user-agent", "clu"},
		{`"addUserAgent":true`, []string{"user-agent: "}, "user-agent", "clu"},
		{`"addUserAgent":true`, []string{"user-agent: curl"}, "user-agent", "curl"},
		{`"addUserAgent":true`, []string{"x-envoy-downstream-service-cluster: z"}, "x-envoy-downstream-service-cluster", "clu"},
		{remote + `,"addUserAgent":true`, []string{"x-envoy-downstream-service-node: z"}, "x-envoy-downstream-service-node", "nodeid"},
	} {
		if got := rulesOf(t, tc.config).ask(ask{lines: tc.lines}).get(tc.name); got != tc.want {
			t.Errorf("%s %v: %s is %q, want %q", tc.config, tc.lines, tc.name, got, tc.want)
		}
	}
}

// Proves HC-35.
func TestRequestID(t *testing.T) {
	const four, nine = "11111111-2222-4333-8444-555555555555", "11111111-2222-9333-8444-555555555555"
	keep := remote + `,"preserveExternalRequestId":true`
	unpacked := keep + `,"requestIdExtension":{"typedConfig":{"@type":"type.googleapis.com/envoy.extensions.request_id.uuid.v3.UuidRequestIdConfig","packTraceReason":false}}`
	for _, tc := range []struct{ name, config, id, peer, want string }{
		{"none", "", "-", "", fixedID},
		{"empty", "", "", "", fixedID},
		{"kept inside", "", nine, "", nine},
		{"nonsense kept inside", "", "junk", "", "junk"},
		{"made at the edge", remote, "-", "", fixedID},
		{"replaced at the edge", remote, nine, "", fixedID},
		{"kept of an internal request", remote + "," + anInternal, nine, "10.0.0.5", nine},
		{"kept at the edge, not its trace decision", keep, nine, "", four},
		{"kept at the edge, untraced", keep, four, "", four},
		{"kept at the edge, not a UUID", keep, "junk", "", "junk"},
		{"kept at the edge, nearly a UUID", keep, nine[:35], "", nine[:35]},
		{"kept at the edge, as long as a UUID", keep, strings.Repeat("z", 36), "", strings.Repeat("z", 14) + "4" + strings.Repeat("z", 21)},
		{"empty at the edge", keep, "", "", fixedID},
		{"kept at the edge with its decision", unpacked, nine, "", nine},
		{"not made", `"generateRequestId":false`, "-", "", "-"},
		{"not made at the edge", remote + `,"generateRequestId":false`, nine, "", nine},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := ask{peer: tc.peer}
			if tc.id != "-" {
				q.lines = []string{"x-request-id: " + tc.id}
			}
			if got := rulesOf(t, tc.config).ask(q).get("x-request-id"); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestUUIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Uint64().Draw(t, "a"), rapid.Uint64().Draw(t, "b")
		var id [uuidLength]byte
		putUUID(&id, a, b)
		if got, want := string(id[:]), slowUUID(a, b); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	})
}

// What was made of a request is made of it again: a second proxy with the same
// rules for requests from inside changes nothing but what counts hops.
func TestRulesAreIdempotent(t *testing.T) {
	names := append([]string{
		"x-forwarded-for", "x-forwarded-proto", "x-request-id", "referer", "te", "connection", "x-a", "user-agent", "expect", "x-forwarded-client-cert",
	}, told...)
	configs := []string{"", anInternal, normal + "," + merge, `"addUserAgent":true`, `"stripAnyHostPort":true,"stripTrailingHostDot":true`, `"xffNumTrustedHops":1,` + anInternal}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(configs).Draw(t, "config")
		var lines []string
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			v := rapid.SampledFrom([]string{"", "1", "10.0.0.1", "https", "trailers", "x-a, te", "a b", "100-continue", "1.2.3.4, 10.0.0.1"}).Draw(t, "value")
			lines = append(lines, rapid.SampledFrom(names).Draw(t, "name")+": "+v)
		}
		cfg := config(t, c)
		r, err := New(cfg, &Env{LocalCluster: "clu"})
		if err != nil {
			t.Fatal(err)
		}
		host := rapid.SampledFrom([]string{"x", "x:80", "x.", "x.:80"}).Draw(t, "host")
		first := r.ask(ask{host: host, path: "/a/../b//%41", lines: lines})
		once := first.h.String()
		conn := first.Info.Connection
		q := Request{Info: &filter.StreamInfo{Connection: conn}, Protocol: filter.HTTP11, Random: first.Random}
		v := r.Request(&first.h, &q)
		twice := first.h.String()
		// x-envoy-internal is decided anew, so its place changes.
		if v.Status != 0 || sortLines(once) != sortLines(twice) || q.Internal != first.Internal {
			t.Fatalf("%v\n%s\nbecame\n%s", v, once, twice)
		}
	})
}
