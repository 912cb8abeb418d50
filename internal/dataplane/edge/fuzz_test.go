package edge

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// FuzzEdgeRequest: whatever an outsider sends, what he may not say does not
// get through, and who he is stands at the end of x-forwarded-for.
func FuzzEdgeRequest(f *testing.F) {
	f.Add("h.example", "/a", "connection: x-a, te\nx-a: 1\nte: trailers\nx-forwarded-for: 10.0.0.1\nx-envoy-internal: true")
	f.Add("h:80.", "/%2e%2f//\\", "connection: ,,:path,\nconnection: upgrade\nx-envoy-retry-on: a\nx-envoy-retry-on: b\nreferer: http://[::1]:1/\nx-request-id: a")
	f.Add("", "/", "x-forwarded-for: \nx-forwarded-for: ,\nx-forwarded-for: 10.0.0.1\nx-forwarded-proto:\nkeep-alive: 1\nte: \nexpect: 100-CONTINUE")
	r := rulesOf(f, remote+","+anInternal+","+normal+","+merge+`,"stripAnyHostPort":true,"stripTrailingHostDot":true,"via":"pr","addUserAgent":true`)
	gone := append(strings.Fields("connection keep-alive proxy-connection transfer-encoding upgrade x-envoy-internal x-forwarded-client-cert x-envoy-decorator-operation"), told...)
	f.Fuzz(func(t *testing.T, host, path, lines string) {
		q := ask{host: "empty" + host, path: "/" + path}
		for l := range strings.SplitSeq(lines, "\n") {
			if name, value, ok := strings.Cut(l, ":"); ok && name != "" {
				q.lines = append(q.lines, strings.ToLower(name)+":"+value)
			}
		}
		a := r.ask(q)
		if a.Status != 0 {
			return
		}
		for _, n := range gone {
			if a.h.Has(n) {
				t.Fatalf("%s came through:\n%s", n, a.h.String())
			}
		}
		xff := a.get("x-forwarded-for")
		if xff != "192.0.2.5" && !strings.HasSuffix(xff, ",192.0.2.5") || a.get("x-envoy-external-address") != "192.0.2.5" || a.Internal {
			t.Fatalf("the client is lost:\n%s", a.h.String())
		}
		if te := a.get("te"); te != "-" && te != "" && te != "trailers" {
			t.Fatalf("te is %q", te)
		}
		for _, id := range []header.ID{header.Method, header.Path, header.Authority, header.Scheme} {
			if a.h.Count(id.Name()) != 1 {
				t.Fatalf("%s occurs %d times", id.Name(), a.h.Count(id.Name()))
			}
		}
	})
}
