package chainmatch

import (
	"fmt"
	"net/netip"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
)

func manyChains(t testing.TB, n int) *Matcher {
	t.Helper()
	var chains []*listenerv3.FilterChain
	for i := range n {
		match := object{"server_names": []string{fmt.Sprintf("*.tenant%d.example.com", i)}, "transport_protocol": "tls"}
		switch i % 3 {
		case 1:
			match["application_protocols"] = []string{"h2"}
		case 2:
			match["source_prefix_ranges"] = cidr(fmt.Sprintf("10.%d.%d.0", i/256, i%256), 24)
		}
		chains = append(chains, chain(t, fmt.Sprintf("c%d", i), match))
	}
	m, err := New(chains, false)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func manyInput() *Input {
	return &Input{
		DestPort: 443, DestIP: netip.MustParseAddr("10.0.0.1"), Transport: TLS, SNI: "a.b.tenant500.example.com", ALPN: []string{"h2", "http/1.1"},
		DirectSource: netip.MustParseAddr("10.1.244.9"), Source: netip.MustParseAddr("10.1.244.9"), SourcePort: 4000,
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	m, in := manyChains(t, 1000), manyInput()
	if got := m.Match(in); got != 500 {
		t.Fatalf("got chain %d", got)
	}
	if n := testing.AllocsPerRun(100, func() { m.Match(in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMatch1000Chains(b *testing.B) {
	m, in := manyChains(b, 1000), manyInput()
	b.ReportAllocs()
	for b.Loop() {
		if m.Match(in) != 500 {
			b.Fatal("wrong chain")
		}
	}
}

func BenchmarkMatchOneChain(b *testing.B) {
	m, err := New([]*listenerv3.FilterChain{chain(b, "a", object{})}, false)
	if err != nil {
		b.Fatal(err)
	}
	in := manyInput()
	b.ReportAllocs()
	for b.Loop() {
		if m.Match(in) != 0 {
			b.Fatal("wrong chain")
		}
	}
}
