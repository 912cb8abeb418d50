package tlsio

import (
	"errors"
	"runtime"
	"testing"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// exchangeOnce sends a small request and a small response.
func exchangeOnce(l *link, request, response, buf []byte) error {
	for _, hop := range [2]struct {
		from, to *end
		data     []byte
	}{{l.a, l.b, request}, {l.b, l.a, response}} {
		if err := hop.from.Write(hop.data); err != nil {
			return err
		}
		out := hop.from.Output()
		hop.to.Borrow(out)
		for {
			if _, err := hop.to.Read(buf); err != nil {
				if !errors.Is(err, ErrAgain) {
					return err
				}
				break
			}
		}
		hop.to.Settle()
		hop.from.Consumed(len(out))
	}
	return nil
}

// bareExchange is exchangeOnce on crypto/tls alone, whose connection has its
// buffers ready.
func bareExchange(l *link, request, response, buf []byte) error {
	for _, hop := range [2]struct {
		from, to *end
		data     []byte
	}{{l.a, l.b, request}, {l.b, l.a, response}} {
		if _, err := hop.from.conn.Write(hop.data); err != nil {
			return err
		}
		hop.to.wire.borrowed = hop.from.wire.out.bytes()
		for len(hop.to.wire.borrowed) > 0 {
			if _, err := hop.to.conn.Read(buf); err != nil {
				if !errors.Is(err, again{}) {
					return err
				}
				break
			}
		}
		hop.from.wire.out.b = hop.from.wire.out.b[:0]
	}
	return nil
}

// Reading and writing on an established session allocates nothing beyond what
// crypto/tls does (a reader of 24 bytes for each attempt to read).
func TestAllocations(t *testing.T) {
	pool := buffers{}
	if testing.AllocsPerRun(10, func() {
		for range 100 {
			pool.put(pool.get())
		}
	}) > 0 {
		t.Skip("pools forget on purpose under the race detector")
	}
	for name, v := range versions {
		client, server := simple(t, v)
		l := connect(newWorker(t), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
		request, response, buf := make([]byte, 300), make([]byte, 5000), make([]byte, 17<<10)
		_ = exchangeOnce(l, request, response, buf)
		measure := func(exchange func(l *link, request, response, buf []byte) error) float64 {
			return testing.AllocsPerRun(500, func() {
				if err := exchange(l, request, response, buf); err != nil {
					t.Fatal(err)
				}
			})
		}
		ours := measure(exchangeOnce)
		l.a.wire.out, l.b.wire.out = server.buffers.get(), server.buffers.get()
		theirs := measure(bareExchange)
		if ours > theirs || theirs > 4 {
			t.Errorf("%s: %v allocations per exchange, of which crypto/tls makes %v", name, ours, theirs)
		}
	}
}

// idleBytes is the memory of one idle server session that has served requests
// of a size, without its client.
func idleBytes(tb testing.TB, version tlsv3.TlsParameters_TlsProtocol, request int) float64 {
	tb.Helper()
	const sessions = 300
	client, server := simple(tb, version)
	w := newWorker(tb)
	keep := make([]*Session, 0, sessions)
	run := func(n int) {
		for range n {
			l := connect(w, client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
			if l.a.err != nil || l.b.err != nil {
				tb.Fatal(l.a.err, l.b.err)
			}
			for range 10 {
				if err := exchangeOnce(l, make([]byte, request), make([]byte, 1200), make([]byte, 17<<10)); err != nil {
					tb.Fatal(err)
				}
			}
			l.a.Abort(nil)
			keep = append(keep, l.b.Session)
		}
	}
	run(10)
	before := heap()
	run(sessions - 10)
	after := heap()
	runtime.KeepAlive(keep)
	for _, s := range keep {
		if s.wire.out != nil || s.wire.kept != nil || s.wire.borrowed != nil || s.wire.hands != nil {
			tb.Fatal("an idle session holds a buffer")
		}
	}
	return float64(after-before) / (sessions - 10)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestIdleMemory(t *testing.T) {
	for name, v := range versions {
		// crypto/tls keeps the buffer of the largest record it has received.
		for request, limit := range map[int]float64{300: 7000, 60_000: 26_000} {
			got := idleBytes(t, v, request)
			t.Logf("%s, requests of %d bytes: %.0f bytes per idle session", name, request, got)
			if got > limit {
				t.Errorf("%s, requests of %d bytes: %.0f bytes per idle session, limit %.0f", name, request, got, limit)
			}
		}
	}
}

func BenchmarkIdleMemory(b *testing.B) {
	for name, v := range versions {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(idleBytes(b, v, 300), "B/session")
			}
		})
	}
}

func BenchmarkExchange(b *testing.B) {
	for _, size := range []int{1000, 64_000} {
		b.Run(map[int]string{1000: "1KB", 64_000: "64KB"}[size], func(b *testing.B) {
			client, server := simple(b, tlsv3.TlsParameters_TLSv1_3)
			l := connect(newWorker(b), client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
			request, response, buf := make([]byte, 300), make([]byte, size), make([]byte, 17<<10)
			b.ReportAllocs()
			b.SetBytes(int64(size + 300))
			for b.Loop() {
				if err := exchangeOnce(l, request, response, buf); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	for name, v := range versions {
		b.Run(name, func(b *testing.B) {
			client, server := simple(b, v)
			client.cfg.ClientSessionCache, client.cfg.SessionTicketsDisabled = nil, true
			w := newWorker(b)
			b.ReportAllocs()
			for b.Loop() {
				l := connect(w, client.NewSession(ClientSessionOptions{}), server.NewSession(ConnInfo{}))
				if l.b.err != nil {
					b.Fatal(l.b.err)
				}
			}
		})
	}
}
