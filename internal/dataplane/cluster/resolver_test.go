package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// nameServer answers on loopback, by UDP and TCP, until the test ends.
func nameServer(t *testing.T) *SystemResolver {
	t.Helper()
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	streams, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(reply(buf[:n], true), from)
		}
	})
	wg.Go(func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveStream(conn) })
		}
	})
	t.Cleanup(func() { _, _ = packets.Close(), streams.Close(); wg.Wait() })
	return &SystemResolver{Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		if strings.HasPrefix(network, "udp") {
			return d.DialContext(ctx, "udp", packets.LocalAddr().String())
		}
		return d.DialContext(ctx, "tcp", streams.Addr().String())
	}}
}

func serveStream(conn net.Conn) {
	defer conn.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := reply(query, false)
		out := binary.BigEndian.AppendUint16(nil, uint16(len(answer)))
		for _, b := range append(out, answer...) { // in pieces
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
		}
	}
}

// reply answers two.example (two records), alias.example (by a CNAME) and
// big.example (only by TCP); other names do not exist.
func reply(query []byte, udp bool) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		return nil
	}
	q, err := p.Question()
	if err != nil {
		return nil
	}
	h.Response, h.RecursionAvailable = true, true
	m := dnsmessage.Message{Header: h, Questions: []dnsmessage.Question{q}}
	a := func(ttl uint32, last byte) {
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl},
			Body:   &dnsmessage.AResource{A: [4]byte{10, 0, 0, last}},
		})
	}
	name, isA := q.Name.String(), q.Type == dnsmessage.TypeA
	switch {
	case name == "two.example." && isA:
		a(30, 1)
		a(20, 2)
	case name == "alias.example." && isA:
		m.Answers = append(m.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 7},
			Body:   &dnsmessage.CNAMEResource{CNAME: dnsmessage.MustNewName("real.example.")},
		})
		q.Name = dnsmessage.MustNewName("real.example.")
		a(50, 3)
	case name == "big.example." && udp:
		m.Truncated = true
	case name == "big.example." && isA:
		for i := range byte(100) {
			a(40, i)
		}
	case !strings.HasSuffix(name, ".example.") || !isA:
		m.RCode = dnsmessage.RCodeNameError
	case name == "broken.example.":
		m.RCode = dnsmessage.RCodeServerFailure
	default:
		m.RCode = dnsmessage.RCodeNameError
	}
	out, err := m.Pack()
	if err != nil {
		return nil
	}
	return out
}

// Proves the TTL of CM-07: the resolver knows it, by UDP, through a CNAME and
// by TCP.
func TestSystemResolver(t *testing.T) {
	r := nameServer(t)
	tests := []struct {
		host  string
		first string
		n     int
		ttl   time.Duration
	}{
		{"two.example.", "10.0.0.1", 2, 20 * time.Second},
		{"alias.example.", "10.0.0.3", 1, 7 * time.Second},
		{"big.example.", "10.0.0.0", 100, 40 * time.Second},
	}
	for _, tt := range tests {
		a, err := lookup(t.Context(), r, familyV4, tt.host)
		if err != nil || len(a.addrs) != tt.n || a.addrs[0].String() != tt.first || a.ttl != tt.ttl {
			t.Errorf("%s: %v for %v, error %v", tt.host, a.addrs, a.ttl, err)
		}
	}
	if a, err := lookup(t.Context(), r, familyV4, "none.example."); err != nil || len(a.addrs) != 0 {
		t.Errorf("a name that does not exist: %v, error %v", a.addrs, err)
	}
	var dns *net.DNSError
	if _, err := lookup(t.Context(), r, familyV4, "broken.example."); !errors.As(err, &dns) || dns.IsNotFound {
		t.Errorf("a server failure: %v", err)
	}
}

// Proves the TTL of CM-07: with the system's resolver respect_dns_ttl is
// accepted.
func TestRespectTTLIsAcceptedWithTTLs(t *testing.T) {
	c, _ := build(t, object{"name": "c", "type": "STRICT_DNS", "respect_dns_ttl": true, "load_assignment": load(at("a"))}.String(),
		func(o *Options) { o.Resolver = &SystemResolver{} })
	if !c.dns.respectTTL {
		t.Error("respect_dns_ttl was lost")
	}
}
