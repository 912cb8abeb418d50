package edge

import (
	"net/netip"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// browserHead is what a browser sends.
func browserHead() []string {
	return []string{
		":path: /assets/app.js?v=12", ":authority: www.example.com", ":method: GET",
		"connection: keep-alive", "sec-ch-ua-platform: \"Linux\"", "user-agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"accept: */*", "sec-fetch-site: same-origin", "sec-fetch-mode: no-cors", "sec-fetch-dest: script",
		"referer: https://www.example.com/index.html", "accept-encoding: gzip, deflate, br, zstd", "accept-language: en-US,en;q=0.9", "cookie: session=0123456789abcdef; theme=dark",
	}
}

func benchRules(tb testing.TB, c *hcmv3.HttpConnectionManager) (*Rules, *filter.ConnectionInfo) {
	r, err := New(c, &Env{LocalCluster: "front", LocalNode: "front-1"})
	if err != nil {
		tb.Fatal(err)
	}
	return r, &filter.ConnectionInfo{
		Local:  filter.IPAddress(netip.MustParseAddrPort("127.0.0.1:8080")),
		Remote: filter.IPAddress(netip.MustParseAddrPort("203.0.113.7:51000")),
	}
}

func edgeConfig() *hcmv3.HttpConnectionManager {
	return &hcmv3.HttpConnectionManager{
		UseRemoteAddress: wrapperspb.Bool(true), NormalizePath: wrapperspb.Bool(true), MergeSlashes: true,
		InternalAddressConfig: &hcmv3.HttpConnectionManager_InternalAddressConfig{},
	}
}

func BenchmarkRequest(b *testing.B) {
	r, conn := benchRules(b, edgeConfig())
	var src, h header.Map
	fill(&src, browserHead())
	fields := src.Fields()
	info := filter.StreamInfo{Connection: conn}
	n := uint64(1)
	next := func() uint64 { n = n*6364136223846793005 + 1442695040888963407; return n }
	run := func(b *testing.B, rules bool) {
		b.ReportAllocs()
		for b.Loop() {
			h.Reset()
			for i := range fields {
				h.AddOwned(fields[i].Name, fields[i].Value, fields[i].ID())
			}
			q := Request{Info: &info, Protocol: filter.HTTP11, Random: random(next)}
			if rules {
				if v := r.Request(&h, &q); v.Status != 0 {
					b.Fatal(v)
				}
			}
		}
	}
	b.Run("fill", func(b *testing.B) { run(b, false) })
	b.Run("fill+rules", func(b *testing.B) { run(b, true) })
}

func BenchmarkResponse(b *testing.B) {
	r, conn := benchRules(b, edgeConfig())
	var req, src, h header.Map
	fill(&src, []string{":status: 200", "content-type: text/html", "content-length: 1234", "cache-control: no-store", "server: nginx", "etag: \"x\"", "vary: accept-encoding"})
	fields := src.Fields()
	q := Response{Info: &filter.StreamInfo{Connection: conn}, Date: "Sat, 21 Nov 2026 17:40:00 GMT"}
	b.ReportAllocs()
	for b.Loop() {
		h.Reset()
		for i := range fields {
			h.AddOwned(fields[i].Name, fields[i].Value, fields[i].ID())
		}
		r.Response(&req, &h, &q)
	}
}

func TestNothingIsAllocated(t *testing.T) {
	var r *Rules
	var conn *filter.ConnectionInfo
	for name, extra := range map[string][]string{
		"browser":      nil,
		"forwarded":    {"x-forwarded-for: 1.2.3.4", "x-request-id: a", "te: trailers"},
		"listed":       {"x-forwarded-for: 2001:db8::1, 10.0.0.1", "x-forwarded-proto: https"},
		"odd path":     {":path: /a/./%41%2e%2e//b?c"},
		"told by peer": {"x-envoy-retry-on: 5xx", "x-envoy-internal: true"},
	} {
		head := browserHead()
		if name == "listed" {
			r, conn = benchRules(t, config(t, `"xffNumTrustedHops":1`))
		} else {
			r, conn = benchRules(t, edgeConfig())
		}
		if len(extra) == 1 {
			head = append(extra, head[1:]...)
		} else {
			head = append(head, extra...)
		}
		var h header.Map
		info := filter.StreamInfo{Connection: conn}
		q := Request{Info: &info, Protocol: filter.HTTP11, Random: random(func() uint64 { return 7 })}
		once := func() {
			h.Reset()
			fill(&h, head)
			if v := r.Request(&h, &q); v.Status != 0 {
				t.Fatal(v)
			}
		}
		once()
		base := testing.AllocsPerRun(100, func() { h.Reset(); fill(&h, head) })
		if n := testing.AllocsPerRun(100, once); n > base {
			t.Errorf("%s: %v allocations, %v without the rules", name, n, base)
		}
	}
}
