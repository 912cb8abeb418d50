package chainmatch

import (
	"encoding/json"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

type matchCase struct {
	Name   string
	Local  bool
	Proves string
	Chains map[string]map[string]any
	Conns  []connCase
}

type connCase struct {
	Dst, Src, Direct, SNI string
	ALPN                  []string
	TLS                   bool
	Plain                 string
	Want                  string
}

func (c connCase) input(t *testing.T) *Input {
	t.Helper()
	in := &Input{Transport: RawBuffer, SNI: strings.ToLower(c.SNI), ALPN: c.ALPN}
	if c.TLS || c.SNI != "" || c.ALPN != nil {
		in.Transport = TLS
	}
	if c.Plain != "" {
		in.ALPN = []string{c.Plain}
	}
	in.DestIP, in.DestPort = endpoint(t, c.Dst, "10.0.0.1:443")
	in.Source, in.SourcePort = endpoint(t, c.Src, "192.0.2.1:40000")
	if c.Direct == "" {
		c.Direct = "127.0.0.1"
	}
	if c.Direct != "unix" {
		in.DirectSource = netip.MustParseAddr(c.Direct)
	}
	return in
}

func endpoint(t *testing.T, s, otherwise string) (netip.Addr, uint16) {
	t.Helper()
	switch s {
	case "unix":
		return netip.Addr{}, 0
	case "":
		s = otherwise
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		t.Fatal(err)
	}
	return ap.Addr(), ap.Port()
}

func readCases(t *testing.T) []matchCase {
	t.Helper()
	text, err := os.ReadFile("testdata/match.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []matchCase
	if err := yaml.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func chain(t testing.TB, name string, match map[string]any) *listenerv3.FilterChain {
	t.Helper()
	text, err := json.Marshal(match)
	if err != nil {
		t.Fatal(err)
	}
	m := &listenerv3.FilterChainMatch{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatalf("chain %s: %v", name, err)
	}
	return &listenerv3.FilterChain{Name: name, FilterChainMatch: m}
}

// Proves FC-01, FC-02, FC-03, FC-04, FC-05, FC-06, FC-09 and FC-10: each case
// of the table names the one it is for, and runs with its chains in two orders,
// which must not matter.
func TestMatchTable(t *testing.T) {
	for _, c := range readCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			names := slices.Sorted(maps.Keys(c.Chains))
			for range 2 {
				slices.Reverse(names)
				var chains []*listenerv3.FilterChain
				for _, n := range names {
					chains = append(chains, chain(t, n, c.Chains[n]))
				}
				m, err := New(chains, false)
				if err != nil {
					t.Fatal(err)
				}
				for _, conn := range c.Conns {
					got := ""
					if i := m.Match(conn.input(t)); i >= 0 {
						got = chains[i].GetName()
					}
					if got != conn.Want {
						t.Errorf("%s, chains %v: %+v gets %q, want %q", c.Proves, names, conn, got, conn.Want)
					}
				}
			}
		})
	}
}

func TestTableHasBreadth(t *testing.T) {
	conns := 0
	cases := readCases(t)
	for _, c := range cases {
		conns += len(c.Conns)
	}
	if len(cases) < 40 || conns < 120 {
		t.Errorf("%d cases with %d connections", len(cases), conns)
	}
}

func TestTransportDefaultsToRawBuffer(t *testing.T) {
	m, err := New([]*listenerv3.FilterChain{chain(t, "raw", map[string]any{"transport_protocol": "raw_buffer"})}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Match(&Input{DestIP: netip.MustParseAddr("10.0.0.1"), Source: netip.MustParseAddr("10.0.0.2")}); got != 0 {
		t.Errorf("got chain %d", got)
	}
}

// The condition of LF-05; that the listener then adds an inspector is its own.
func TestNeedsTLSInspector(t *testing.T) {
	for _, c := range []struct {
		match map[string]any
		want  bool
	}{
		{map[string]any{}, false},
		{map[string]any{"destination_port": 443}, false},
		{map[string]any{"transport_protocol": "tls"}, true},
		{map[string]any{"transport_protocol": "raw_buffer"}, false},
		{map[string]any{"server_names": []string{"a.com"}}, true},
		{map[string]any{"application_protocols": []string{"h2"}}, true},
		{map[string]any{"transport_protocol": "raw_buffer", "application_protocols": []string{"h2c"}}, false},
		{map[string]any{"transport_protocol": "quic", "server_names": []string{"a.com"}}, false},
	} {
		m, err := New([]*listenerv3.FilterChain{chain(t, "a", c.match), chain(t, "b", map[string]any{"source_ports": []int{1}})}, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.NeedsTLSInspector(); got != c.want {
			t.Errorf("%v: %v, want %v", c.match, got, c.want)
		}
	}
}

func TestOnlyDefaultChain(t *testing.T) {
	m, err := New(nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Match(&Input{DestPort: 1}); got != -1 {
		t.Errorf("got chain %d", got)
	}
}
