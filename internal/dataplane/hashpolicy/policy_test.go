package hashpolicy

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// policyOf reads a list of policies.
func policyOf(t testing.TB, js string) *Policy {
	t.Helper()
	a := &routev3.RouteAction{}
	if err := protojson.Unmarshal([]byte(`{"hash_policy": [`+js+`]}`), a); err != nil {
		t.Fatal(err)
	}
	p, err := New(a.GetHashPolicy())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// hashable is an object of the filter state.
type hashable struct {
	hash uint64
	ok   bool
}

func (h hashable) Hash() (uint64, bool) { return h.hash, h.ok }

// maker makes cookies with one value and notes them.
type maker struct {
	value string
	made  []string
}

func (m *maker) MakeCookie(c *Cookie) string {
	m.made = append(m.made, c.Set(m.value))
	return m.value
}

func sum(s string) uint64 { return xxhash.Sum64String(s) }

// seeded is a hash that begins with another.
func seeded(seed uint64, s string) uint64 {
	d := xxhash.NewWithSeed(seed)
	_, _ = d.WriteString(s)
	return d.Sum64()
}

// Proves RT-24: each kind, and how they are combined. The known values of xxHash64
// are those of its authors.
func TestHash(t *testing.T) {
	if sum("") != 0xef46db3751d8e999 || sum("a") != 0xd24ec4f1a98c6e5b {
		t.Fatal("this is not xxHash64 with seed 0")
	}
	const x, y = `{"header": {"header_name": "x"}}`, `{"header": {"header_name": "Y"}}`
	a, b := sum("a"), sum("b")
	both := bits.RotateLeft64(a, 1) ^ b
	ip := netip.MustParseAddrPort
	tests := []struct {
		name, policy string
		fields       []string
		path, remote string
		state        any
		want         uint64
		none         bool
	}{
		{name: "header", policy: x, fields: []string{"x", "a"}, want: a},
		{name: "no header", policy: x, fields: []string{"z", "a"}, none: true},
		{name: "empty header", policy: x, fields: []string{"x", ""}, want: sum("")},
		{name: "values", policy: x, fields: []string{"x", "b", "x", "a"}, want: seeded(a, "b")},
		{name: "values in order", policy: x, fields: []string{"x", "a", "x", "b"}, want: seeded(a, "b")},
		{name: "host", policy: `{"header": {"header_name": "Host"}}`, fields: []string{":authority", "a"}, want: a},
		{name: "path", policy: `{"header": {"header_name": ":path"}}`, path: "/a?b", want: sum("/a?b")},
		{name: "rewritten", policy: `{"header": {"header_name": "x", "regex_rewrite": {"pattern": {"regex": "-(.)"}, "substitution": "\\1\\1"}}}`, fields: []string{"x", "b-a"}, want: sum("baa")},
		{name: "cookie", policy: `{"cookie": {"name": "c"}}`, fields: []string{"cookie", "d=e; c=a"}, want: a},
		{name: "quoted cookie", policy: `{"cookie": {"name": "c"}}`, fields: []string{"cookie", `c="a"`}, want: a},
		{name: "empty cookie", policy: `{"cookie": {"name": "c"}}`, fields: []string{"cookie", "c="}, none: true},
		{name: "made cookie", policy: `{"cookie": {"name": "c", "ttl": "1s"}}`, want: sum("made")},
		{name: "made for an empty one", policy: `{"cookie": {"name": "c", "ttl": "0s"}}`, fields: []string{"cookie", "c="}, want: sum("made")},
		{name: "query", policy: `{"query_parameter": {"name": "q"}}`, path: "/?p=1&q=a%20b&q=2", want: sum("a%20b")},
		{name: "query without value", policy: `{"query_parameter": {"name": "q"}}`, path: "/?q", want: sum("")},
		{name: "no query", policy: `{"query_parameter": {"name": "q"}}`, path: "/?r=1", none: true},
		{name: "IP", policy: `{"connection_properties": {"source_ip": true}}`, remote: "1.2.3.4:5", want: sum("1.2.3.4")},
		{name: "IPv6", policy: `{"connection_properties": {"source_ip": true}}`, remote: "[2001:db8::1]:5", want: sum("2001:db8::1")},
		{name: "no IP", policy: `{"connection_properties": {"source_ip": true}}`, none: true},
		{name: "state", policy: `{"filter_state": {"key": "k"}}`, state: hashable{77, true}, want: 77},
		{name: "state without hash", policy: `{"filter_state": {"key": "k"}}`, state: hashable{77, false}, none: true},
		{name: "state that cannot", policy: `{"filter_state": {"key": "k"}}`, state: "text", none: true},
		{name: "two", policy: x + "," + y, fields: []string{"x", "a", "y", "b"}, want: both},
		{name: "equal ones", policy: x + "," + x, fields: []string{"x", "a"}, want: bits.RotateLeft64(a, 1) ^ a},
		{name: "only the second", policy: x + "," + y, fields: []string{"y", "b"}, want: b},
		{name: "terminal", policy: `{"header": {"header_name": "x"}, "terminal": true},` + y, fields: []string{"x", "a", "y", "b"}, want: a},
		{name: "terminal without", policy: `{"header": {"header_name": "x"}, "terminal": true},` + y, fields: []string{"y", "b"}, want: b},
		{name: "terminal after a hash", policy: x + `,{"header": {"header_name": "z"}, "terminal": true},` + y, fields: []string{"x", "a", "y", "b"}, want: a},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policyOf(t, tt.policy)
			r := &Request{Head: &header.Map{}, Cookies: &maker{value: "made"}}
			if tt.path != "" {
				r.Head.Add(":path", tt.path)
			}
			for i := 0; i < len(tt.fields); i += 2 {
				r.Head.Add(tt.fields[i], tt.fields[i+1])
			}
			if tt.remote != "" {
				r.Remote = filter.IPAddress(ip(tt.remote))
			}
			if tt.state != nil {
				r.State = map[string]any{"k": tt.state}
			}
			got, ok := p.Hash(r)
			if ok == tt.none || ok && got != tt.want {
				t.Errorf("%#x, %t; want %#x", got, ok, tt.want)
			}
		})
	}
}

// A connection has no head, and not everything of a list hashes.
func TestLittle(t *testing.T) {
	all := policyOf(t, `{"header": {"header_name": "x"}}, {"cookie": {"name": "c", "ttl": "1s"}}, {"query_parameter": {"name": "q"}}, {"filter_state": {"key": "k"}}, {"connection_properties": {"source_ip": true}}`)
	m := &maker{}
	if h, ok := all.Hash(&Request{Cookies: m}); ok || len(m.made) > 0 {
		t.Errorf("%#x of nothing, %q", h, m.made)
	}
	if p := policyOf(t, `{"connection_properties": {}}`); p != nil {
		t.Errorf("%+v", p)
	}
	if p := policyOf(t, ""); p != nil {
		t.Errorf("%+v", p)
	}
}

// Partly proves RT-24.
func TestCookies(t *testing.T) {
	for policy, want := range map[string]string{
		`{"cookie": {"name": "c", "ttl": "0s"}}`:                                                                           `c="v"; HttpOnly`,
		`{"cookie": {"name": "c", "ttl": "90.9s", "path": "/p"}}`:                                                          `c="v"; Max-Age=90; Path=/p; HttpOnly`,
		`{"cookie": {"name": "c", "ttl": "0s", "attributes": [{"name": "Secure"}, {"name": "SameSite", "value": "Lax"}]}}`: `c="v"; Secure; SameSite=Lax; HttpOnly`,
	} {
		m := &maker{value: "v"}
		if _, ok := policyOf(t, policy).Hash(&Request{Head: &header.Map{}, Cookies: m}); !ok || len(m.made) != 1 || m.made[0] != want {
			t.Errorf("%q, want %q", m.made, want)
		}
	}
	remote, local := filter.IPAddress(netip.MustParseAddrPort("1.2.3.4:5")), filter.PipeAddress("/x")
	if v := Value(remote, local); v != fmt.Sprintf("%016x", sum("1.2.3.4:5/x")) {
		t.Error(v)
	}
	for i := range uint16(300) { // among them some with zeros at the start
		if v := Value(filter.IPAddress(netip.AddrPortFrom(netip.AddrFrom4([4]byte{1, 2, 3, 4}), i)), local); len(v) != 16 {
			t.Error(v)
		}
	}
}

func TestRefuses(t *testing.T) {
	for policy, want := range map[string]string{
		`{}`: "[0].policy_specifier: it is missing",
		`{"header": {"header_name": "x"}}, {"header": {"header_name": "x", "regex_rewrite": {"pattern": {"regex": "("}}}}`: "[1].header.regex_rewrite.pattern: ",
		`{"cookie": {"name": "x", "path": "/\r\na: b"}}`:                                                                   "[0].cookie: its name or path",
	} {
		a := &routev3.RouteAction{}
		if err := protojson.Unmarshal([]byte(`{"hash_policy": [`+policy+`]}`), a); err != nil {
			t.Fatal(err)
		}
		if _, err := New(a.GetHashPolicy()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

func TestHashAllocatesNothing(t *testing.T) {
	p := policyOf(t, `{"header": {"header_name": "x"}}, {"cookie": {"name": "c"}}, {"query_parameter": {"name": "q"}}, {"connection_properties": {"source_ip": true}}`)
	r := &Request{Head: &header.Map{}, Remote: filter.IPAddress(netip.MustParseAddrPort("1.2.3.4:5"))}
	for _, f := range [][2]string{{":path", "/?q=1"}, {"x", "b"}, {"x", "a"}, {"cookie", "c=1"}, {"x", "c"}} {
		r.Head.Add(f[0], f[1])
	}
	if n := testing.AllocsPerRun(100, func() { p.Hash(r) }); n > 0 {
		t.Error(n)
	}
}
