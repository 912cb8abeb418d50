package edge

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
)

const (
	anInternal = `"internalAddressConfig":{}`
	remote     = `"useRemoteAddress":true`
)

// The expectations of this file were measured on Envoy 1.40, but for those of
// loopback peers, whose own address is written here.

// Proves HC-30 and HC-31: the tables of the documentation, and lists that do
// not hold as many addresses as are trusted.
func TestTrustedClient(t *testing.T) {
	const three = "203.0.113.128,203.0.113.10,203.0.113.1"
	for _, tc := range []struct{ name, config, xff, peer, client, appended string }{
		{"edge, 0 hops", remote, three, "192.0.2.5", "192.0.2.5", three + ",192.0.2.5"},
		{"edge, 1 hop", remote + `,"xffNumTrustedHops":1`, three, "192.0.2.5", "203.0.113.1", three + ",192.0.2.5"},
		{"edge, 2 hops", remote + `,"xffNumTrustedHops":2`, three, "192.0.2.5", "203.0.113.10", three + ",192.0.2.5"},
		{"edge, more hops than addresses", remote + `,"xffNumTrustedHops":2`, "1.2.3.4", "192.0.2.5", "192.0.2.5", "1.2.3.4,192.0.2.5"},
		{"edge, no list", remote + `,"xffNumTrustedHops":2`, "-", "192.0.2.5", "192.0.2.5", "192.0.2.5"},
		{"edge, empty list", remote, "", "192.0.2.5", "192.0.2.5", "192.0.2.5"},
		{"edge, nonsense", remote + `,"xffNumTrustedHops":1`, "bogus", "192.0.2.5", "192.0.2.5", "bogus,192.0.2.5"},
		{"edge, v6", remote, "-", "2001:db8::7", "2001:db8::7", "2001:db8::7"},
		{"edge, v6 loopback", remote, "-", "::1", "::1", "::1"},
		{"edge, without appending", remote + `,"skipXffAppend":true`, three, "192.0.2.5", "192.0.2.5", three},
		{"edge, without appending to nothing", remote + `,"skipXffAppend":true`, "-", "10.9.9.9", "10.9.9.9", "-"},
		{"inside, 0 hops", "", three + ",192.0.2.5", "192.0.2.9", "192.0.2.5", three + ",192.0.2.5"},
		{"inside, 1 hop", `"xffNumTrustedHops":1`, three + ",192.0.2.5", "192.0.2.9", "203.0.113.1", three + ",192.0.2.5"},
		{"inside, 2 hops", `"xffNumTrustedHops":2`, three + ",192.0.2.5", "192.0.2.9", "203.0.113.10", three + ",192.0.2.5"},
		{"inside, no list", "", "-", "192.0.2.9", "192.0.2.9", "-"},
		{"inside, empty list", "", "", "192.0.2.9", "192.0.2.9", ""},
		{"inside, nonsense", "", "bogus", "192.0.2.9", "192.0.2.9", "bogus"},
		{"inside, nonsense last", "", "1.2.3.4,bogus", "192.0.2.9", "192.0.2.9", "1.2.3.4,bogus"},
		{"inside, comma last", "", "10.0.0.3,", "192.0.2.9", "192.0.2.9", "10.0.0.3,"},
		{"inside, comma first", "", ",10.0.0.3", "192.0.2.9", "10.0.0.3", ",10.0.0.3"},
		{"inside, spaces", "", "1.2.3.4 , 10.0.0.3", "192.0.2.9", "10.0.0.3", "1.2.3.4 , 10.0.0.3"},
		{"inside, with port", "", "10.0.0.3:80", "192.0.2.9", "192.0.2.9", "10.0.0.3:80"},
		{"inside, v6 in brackets", "", "[::1]", "192.0.2.9", "192.0.2.9", "[::1]"},
		{"inside, v6 with port", "", "[2001:db8::1]:80", "192.0.2.9", "192.0.2.9", "[2001:db8::1]:80"},
		{"inside, v6", "", "2001:db8::1", "192.0.2.9", "2001:db8::1", "2001:db8::1"},
		{"inside, zero in front", "", "10.0.0.03", "192.0.2.9", "192.0.2.9", "10.0.0.03"},
		{"inside, hexadecimal", "", "0x0a000001", "192.0.2.9", "192.0.2.9", "0x0a000001"},
		{"inside, short", "", "10.1", "192.0.2.9", "192.0.2.9", "10.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := ask{peer: tc.peer}
			if tc.xff != "-" {
				q.lines = []string{"x-forwarded-for: " + tc.xff}
			}
			a := rulesOf(t, tc.config).ask(q)
			if got := a.Remote.IP.Addr().String(); got != tc.client || a.Info.Remote != a.Remote {
				t.Errorf("the client is %s, want %s", got, tc.client)
			}
			if got := a.get("x-forwarded-for"); got != tc.appended {
				t.Errorf("x-forwarded-for is %q, want %q", got, tc.appended)
			}
		})
	}
}

// A client must not hide an address in a second field of the name.
func TestListsAreOneList(t *testing.T) {
	two := []string{"x-forwarded-for: 10.0.0.4", "x-forwarded-for: 10.0.0.5"}
	a := rulesOf(t, anInternal).ask(ask{lines: two})
	if got := a.Remote.IP.Addr().String(); got != "10.0.0.5" || a.Internal || a.get("x-forwarded-for") != "10.0.0.4,10.0.0.5" {
		t.Errorf("client %s, internal %t, list %s", got, a.Internal, a.get("x-forwarded-for"))
	}
	a = rulesOf(t, remote).ask(ask{lines: two})
	if got := a.get("x-forwarded-for"); got != "10.0.0.4,10.0.0.5,192.0.2.5" {
		t.Errorf("x-forwarded-for is %q", got)
	}
	a = rulesOf(t, "").ask(ask{lines: []string{
		"x-forwarded-proto: https", "x-forwarded-proto: http", "accept: a", "user-agent: a", "accept: b", "cookie: a", "cookie: b",
		"x-z: 1", "x-z: 2", "x-request-id: a", "x-request-id: ", "x-request-id: b", "accept: c",
	}})
	for name, want := range map[string]string{
		"x-forwarded-proto": "https,http", ":scheme": "http", "accept": "a,b,c", "cookie": "a|b", "x-z": "1|2", "x-request-id": "a,b", "user-agent": "a",
	} {
		if got := a.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// Proves HC-32.
func TestInternalRequests(t *testing.T) {
	ranges := `"internalAddressConfig":{"cidrRanges":[{"addressPrefix":"203.0.113.0","prefixLen":24}]}`
	for _, tc := range []struct {
		name, config, xff, peer string
		want                    bool
	}{
		{"edge, inside", remote + "," + anInternal, "-", "10.0.0.5", true},
		{"edge, loopback", remote + "," + anInternal, "-", "127.0.0.1", true},
		{"edge, v6 inside", remote + "," + anInternal, "-", "fd00::7", true},
		{"edge, v6 loopback", remote + "," + anInternal, "-", "::1", true},
		{"edge, outside", remote + "," + anInternal, "-", "192.0.2.5", false},
		{"edge, v6 outside", remote + "," + anInternal, "-", "2001:db8::7", false},
		{"edge, forwarded", remote + "," + anInternal, "10.1.1.1", "10.0.0.5", false},
		{"edge, forwarded by nobody", remote + "," + anInternal, "", "10.0.0.5", false},
		{"edge, hops and no list", remote + `,"xffNumTrustedHops":2,` + anInternal, "-", "10.0.0.5", true},
		{"edge, hops and list", remote + `,"xffNumTrustedHops":1,` + anInternal, "10.0.0.3", "10.0.0.5", false},
		{"edge, nothing is internal", remote, "-", "10.0.0.5", false},
		{"edge, range", remote + "," + ranges, "-", "203.0.113.4", true},
		{"edge, not in range", remote + "," + ranges, "-", "10.0.0.4", false},
		{"behind, one inside", anInternal, "10.1.1.1", "192.0.2.5", true},
		{"behind, one with spaces", anInternal, " 10.0.0.3 ", "192.0.2.5", true},
		{"behind, two inside", anInternal, "10.1.1.1,10.2.2.2", "10.0.0.5", false},
		{"behind, comma first", anInternal, ",10.0.0.3", "10.0.0.5", false},
		{"behind, no list", anInternal, "-", "10.0.0.5", false},
		{"behind, empty list", anInternal, "", "10.0.0.5", false},
		{"behind, nonsense", anInternal, "bogus", "10.0.0.5", false},
		{"behind, outside", anInternal, "8.8.8.8", "10.0.0.5", false},
		{"behind, mapped", anInternal, "::ffff:10.0.0.1", "10.0.0.5", false},
		{"172.16", anInternal, "172.16.0.1", "10.0.0.5", true},
		{"172.32", anInternal, "172.32.0.1", "10.0.0.5", false},
		{"192.168", anInternal, "192.168.3.1", "10.0.0.5", true},
		{"127.0.0.1", anInternal, "127.0.0.1", "10.0.0.5", true},
		{"other loopback", anInternal, "127.9.9.9", "10.0.0.5", false},
		{"fd", anInternal, "fd00::1", "10.0.0.5", true},
		{"fc", anInternal, "fc00::1", "10.0.0.5", false},
		{"site local", anInternal, "fec0::1", "10.0.0.5", false},
		{"link local", anInternal, "169.254.1.1", "10.0.0.5", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			q := ask{peer: tc.peer, lines: []string{"x-envoy-internal: true"}}
			if tc.xff != "-" {
				q.lines = append(q.lines, "x-forwarded-for: "+tc.xff)
			}
			a := rulesOf(t, tc.config).ask(q)
			want := "-"
			if tc.want {
				want = "true"
			}
			if a.Internal != tc.want || a.get("x-envoy-internal") != want {
				t.Errorf("internal %t, x-envoy-internal %s, want %t", a.Internal, a.get("x-envoy-internal"), tc.want)
			}
		})
	}
}

// Proves HC-32 for sockets: such a peer has no address to forward.
func TestUnixSockets(t *testing.T) {
	for config, want := range map[string]bool{`"internalAddressConfig":{"unixSockets":true}`: true, anInternal: false, `"via":""`: false} {
		a := rulesOf(t, remote+","+config).ask(ask{pipe: true})
		if a.Internal != want {
			t.Errorf("with %s internal is %t", config, a.Internal)
		}
		if a.get("x-forwarded-for") != "-" || a.get("x-envoy-external-address") != "-" {
			t.Errorf("a socket's address was forwarded:\n%s", a.h.String())
		}
	}
}

// told are the headers that say what only the inside may say.
var told = strings.Fields(`x-envoy-expected-rq-timeout-ms x-envoy-force-trace x-envoy-ip-tags x-envoy-max-retries x-envoy-retry-on
	x-envoy-retry-grpc-on x-envoy-retriable-header-names x-envoy-retriable-status-codes x-envoy-upstream-alt-stat-name
	x-envoy-upstream-rq-per-try-timeout-ms x-envoy-upstream-rq-timeout-alt-response x-envoy-upstream-rq-timeout-ms x-envoy-hedge-on-per-try-timeout`)

// Proves HC-33.
func TestSanitizing(t *testing.T) {
	edgeOnly := strings.Fields("x-envoy-decorator-operation x-envoy-downstream-service-cluster x-envoy-downstream-service-node x-envoy-original-path x-envoy-original-host")
	kept := strings.Fields("x-envoy-attempt-count x-envoy-is-timeout-retry x-client-trace-id x-envoy-overloaded x-forwarded-host x-envoy-downstream-foo")
	var lines []string
	for _, group := range [][]string{told, edgeOnly, kept, {"x-envoy-external-address"}} {
		for _, n := range group {
			lines = append(lines, n+": a")
		}
	}
	for _, tc := range []struct {
		name, config, peer, external string
		told, edgeOnly               bool
	}{
		{"edge, outside", remote + "," + anInternal, "192.0.2.5", "192.0.2.5", false, false},
		{"edge, inside", remote + "," + anInternal, "10.0.0.5", "a", true, true},
		{"edge, nothing is internal", remote, "10.0.0.5", "10.0.0.5", false, false},
		{"behind", anInternal, "10.0.0.5", "a", false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := rulesOf(t, tc.config).ask(ask{peer: tc.peer, lines: lines})
			check := func(names []string, want bool) {
				for _, n := range names {
					if a.h.Has(n) != want {
						t.Errorf("%s: %t, want %t", n, a.h.Has(n), want)
					}
				}
			}
			check(told, tc.told)
			check(edgeOnly, tc.edgeOnly)
			check(kept, true)
			if got := a.get("x-envoy-external-address"); got != tc.external {
				t.Errorf("x-envoy-external-address is %q, want %q", got, tc.external)
			}
		})
	}
}

// Proves HC-34 and HC-03: the scheme of a request.
func TestTransport(t *testing.T) {
	hop := remote + `,"xffNumTrustedHops":1`
	secure := &filter.TLSInfo{}
	for _, tc := range []struct {
		name, config, scheme, xfp string
		tls                       *filter.TLSInfo
		wantScheme, wantXFP       string
	}{
		{"nothing said", "", "-", "-", nil, "http", "http"},
		{"believed", "", "-", "https", nil, "https", "https"},
		{"believed in any case", "", "-", "HTTPS", nil, "https", "HTTPS"},
		{"not a scheme", "", "-", "gopher", nil, "http", "gopher"},
		{"not a scheme over TLS", "", "-", "gopher", secure, "https", "gopher"},
		{"said nothing", "", "-", "-", nil, "http", "http"},
		{"empty", "", "-", "", nil, "http", ""},
		{"empty over TLS", "", "-", "", secure, "https", ""},
		{"empty at the edge", remote, "-", "", nil, "http", "http"},
		{"edge", remote, "-", "https", nil, "http", "http"},
		{"edge over TLS", remote, "-", "http", secure, "https", "https"},
		{"edge, nonsense", remote, "-", "gopher", nil, "http", "http"},
		{"edge behind another", hop, "-", "https", nil, "https", "https"},
		{"edge behind another, nothing said", hop, "-", "-", secure, "https", "https"},
		{"absolute", "", "https", "-", nil, "https", "http"},
		{"absolute in capitals", "", "HTTP", "https", nil, "http", "https"},
		{"no such scheme", "", "ftp", "https", nil, "https", "https"},
		{"no such scheme at the edge", remote, "ftp", "https", nil, "http", "http"},
		{"overwritten", `"schemeHeaderTransformation":{"schemeToOverwrite":"https"}`, "http", "http", nil, "https", "https"},
		{"overwritten over TLS", remote + `,"schemeHeaderTransformation":{"schemeToOverwrite":"http"}`, "-", "-", secure, "http", "http"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var lines []string
			if tc.scheme != "-" {
				lines = append(lines, ":scheme: "+tc.scheme)
			}
			if tc.xfp != "-" {
				lines = append(lines, "x-forwarded-proto: "+tc.xfp)
			}
			a := rulesOf(t, tc.config).ask(ask{tls: tc.tls, lines: lines})
			if a.get(":scheme") != tc.wantScheme || a.get("x-forwarded-proto") != tc.wantXFP {
				t.Errorf("scheme %s, x-forwarded-proto %s, want %s and %s", a.get(":scheme"), a.get("x-forwarded-proto"), tc.wantScheme, tc.wantXFP)
			}
		})
	}
}

// Proves HC-34: x-forwarded-port.
func TestForwardedPort(t *testing.T) {
	for _, tc := range []struct{ config, said, want string }{
		{"", "-", "-"},
		{"", "99", "99"},
		{`"appendXForwardedPort":true`, "-", "8080"},
		{`"appendXForwardedPort":true`, "99", "99"},
		{remote + `,"appendXForwardedPort":true`, "99", "8080"},
		{remote + `,"appendXForwardedPort":true,"xffNumTrustedHops":1`, "99", "99"},
		{remote + `,"appendXForwardedPort":true,"xffNumTrustedHops":1`, "-", "8080"},
	} {
		var lines []string
		if tc.said != "-" {
			lines = []string{"x-forwarded-port: " + tc.said}
		}
		if got := rulesOf(t, tc.config).ask(ask{lines: lines}).get("x-forwarded-port"); got != tc.want {
			t.Errorf("%s with %s: %s, want %s", tc.config, tc.said, got, tc.want)
		}
	}
}
