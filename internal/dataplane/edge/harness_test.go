package edge

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// fill adds "name: value" lines to a head.
func fill(h *header.Map, lines []string) {
	for _, l := range lines {
		i := strings.Index(l[1:], ":") + 1
		h.Add(l[:i], strings.TrimPrefix(l[i+1:], " "))
	}
}

// tester is what helpers need of a test.
type tester interface {
	Helper()
	Fatal(args ...any)
}

// config reads the JSON of a connection manager.
func config(t tester, json string) *hcmv3.HttpConnectionManager {
	t.Helper()
	var m hcmv3.HttpConnectionManager
	if err := protojson.Unmarshal([]byte("{"+json+"}"), &m); err != nil {
		t.Fatal(err)
	}
	return &m
}

func rulesOf(t testing.TB, json string) *Rules {
	t.Helper()
	r, err := New(config(t, json), &Env{LocalCluster: "clu", LocalNode: "nodeid"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ask is a request as a test describes it: a path or the whole request line's
// head, the peer, and other header lines.
type ask struct {
	path, host, method string
	peer               string
	pipe               bool
	tls                *filter.TLSInfo
	protocol           filter.Protocol
	upgrade            bool
	lines              []string
}

// answer is what the rules made of it.
type answer struct {
	Verdict
	Request
	h header.Map
}

// get is the values of a name, joined with "|"; "-" if there is none.
func (a *answer) get(name string) string {
	var all []string
	for v := range a.h.Values(name) {
		all = append(all, v)
	}
	if all == nil {
		return "-"
	}
	return strings.Join(all, "|")
}

const fixedID = "01234567-89ab-4def-bedc-ba9876543210"

func (r *Rules) ask(a ask) *answer {
	out := &answer{}
	if a.method == "" {
		a.method = "GET"
	}
	if a.host == "" {
		a.host = "h.example"
	}
	if a.path == "" && a.method != "CONNECT" {
		a.path = "/"
	}
	out.h.Add(":method", a.method)
	if a.path != "none" && a.path != "" {
		out.h.Add(":path", strings.TrimPrefix(a.path, "empty"))
	}
	if a.host != "none" {
		out.h.Add(":authority", strings.TrimPrefix(a.host, "empty"))
	}
	fill(&out.h, a.lines)
	if a.peer == "" {
		a.peer = "192.0.2.5"
	}
	conn := &filter.ConnectionInfo{Local: filter.IPAddress(netip.MustParseAddrPort("192.0.2.80:8080")), TLS: a.tls}
	if a.pipe {
		conn.Remote = filter.PipeAddress("/run/x.sock")
	} else {
		conn.Remote = filter.IPAddress(netip.AddrPortFrom(netip.MustParseAddr(a.peer), 5555))
	}
	if a.protocol == 0 {
		a.protocol = filter.HTTP11
	}
	turn := []uint64{0x0123456789abcdef, 0xfedcba9876543210}
	out.Request = Request{
		Info: &filter.StreamInfo{Connection: conn}, Protocol: a.protocol, TLS: a.tls != nil, Upgrade: a.upgrade,
		Random: random(func() uint64 { v := turn[0]; turn = append(turn[1:], v); return v }),
	}
	out.Verdict = r.Request(&out.h, &out.Request)
	return out
}

func sortLines(s string) string {
	l := strings.Split(s, "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

// slowUUID formats a UUID by fmt.
func slowUUID(a, b uint64) string {
	s := fmt.Sprintf("%016x%016x", a, b)
	variant := "89ab"[b>>60&3 : b>>60&3+1]
	return s[0:8] + "-" + s[8:12] + "-4" + s[13:16] + "-" + variant + s[17:20] + "-" + s[20:32]
}

// random is a source of what a test wants it to give.
type random func() uint64

func (f random) Uint64() uint64 { return f() }
