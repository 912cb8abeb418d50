package proxy_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

const (
	// slowReaders each download slowLength bytes, slowPiece at a time.
	slowReaders = 1000
	slowLength  = 2 << 20
	slowPiece   = 64 << 10
	slowRounds  = 3
	slowLimit   = 16 << 10 // of buffers
	slowSocket  = 8 << 10  // of what the system buffers, which takes some times as much
)

// slow is a site with a host that has much to send, and a thousand clients.
type slow struct {
	*serving
	taken atomic.Int64
	heap  uint64
}

func slowSite(t *testing.T) *slow {
	t.Helper()
	body := make([]byte, slowLength)
	limit := fmt.Sprintf("per_connection_buffer_limit_bytes: %d,", slowLimit)
	const sendBuffer = "socket_options: [{level: %d, name: %d, int_value: %d, state: STATE_LISTENING}],"
	return &slow{serving: (&site{
		hosts: []string{backend(t, func(w *wire, _ int) {
			for w.head() != "" {
				_, _ = fmt.Fprintf(w, "HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n", slowLength)
				_, _ = w.Write(body)
			}
		})},
		listener: limit + fmt.Sprintf(sendBuffer, syscall.SOL_SOCKET, syscall.SO_SNDBUF, slowSocket),
		cluster:  limit, routes: "{match: {prefix: /}, route: {cluster: back, timeout: 0s}}",
	}).serve(t), heap: heapInUse()}
}

// stalls waits until no host is read any more, and returns how many bytes came from
// hosts. For each reader at most so many are held by the proxy, or on their way.
func (v *slow) stalls(t *testing.T, most int) (received int) {
	t.Helper()
	n := map[string]int{}
	until(t, func() string { return fmt.Sprint(n[pausedUp], " pauses, ", n[resumedUp], " ended") }, func() bool {
		received = n["cluster.back.upstream_cx_rx_bytes_total"]
		time.Sleep(20 * time.Millisecond)
		n = v.values(t)
		return n[pausedUp]-n[resumedUp] == slowReaders && n["cluster.back.upstream_cx_rx_bytes_total"] == received
	})
	held, heap := received-int(v.taken.Load()), heapInUse()
	heap -= min(v.heap, heap)
	if held > slowReaders*most {
		t.Errorf("%d bytes are held for each reader, want at most %d", held/slowReaders, most)
	}
	// Buffers grow in steps, and clients and hosts have some as well.
	if heap > slowReaders*uint64(2*most) {
		t.Errorf("the heap has grown by %d bytes for each reader", heap/slowReaders)
	}
	t.Logf("%d bytes are held for each reader, and %d of heap", held/slowReaders, heap/slowReaders)
	return received
}

// goesOn checks that hosts were read on as clients have read.
func (v *slow) goesOn(t *testing.T, first, now int) {
	t.Helper()
	if resumed := v.number(t, resumedUp); now-first < slowReaders*slowPiece*slowRounds/2 || resumed < slowReaders {
		t.Errorf("%d bytes came while clients have read %d, and reading went on %d times", now-first, v.taken.Load(), resumed)
	}
}

// heapInUse is what the process holds, which includes clients and hosts.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Proves HF-09 with TestBackPressure, TestFlowControl, TestStuckConnections and, for what
// HTTP filters hold, the scripts of internal/dataplane/chain: what the
// proxy holds for a thousand clients that read slowly is bounded by the watermarks of its
// buffers, not by what hosts have to send; these are read on as clients read.
func TestThousandSlowReaders(t *testing.T) {
	t.Run("HTTP/1", func(t *testing.T) {
		// Both sides' buffers up to their limits, what one receive brings, and what is in
		// those of the system.
		const most = 3*slowLimit + 64<<10
		v := slowSite(t)
		var readers []net.Conn
		for range slowReaders {
			readers = append(readers, v.slowly(t))
		}
		first, last := v.stalls(t, most), 0
		for range slowRounds {
			for _, c := range readers {
				n, err := io.CopyN(io.Discard, c, slowPiece)
				if err != nil {
					t.Fatal(err)
				}
				v.taken.Add(n)
			}
			last = v.stalls(t, most)
		}
		v.goesOn(t, first, last)
		for _, c := range readers[:slowReaders/100] {
			if n, err := io.CopyN(io.Discard, c, slowLength-slowRounds*slowPiece); err != nil {
				t.Errorf("%d bytes more, %v", n, err)
			}
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		// A stream's watermark, and what one receive brings. Nothing is on its way.
		const most, connections, streams = 256<<10 + 2*slowLimit, 10, slowReaders / 10
		v := slowSite(t)
		var clients []*wire2
		var reading sync.WaitGroup
		for range connections {
			f := v.dial2(t, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			_ = f.WriteWindowUpdate(0, 1<<30)
			reading.Go(func() { f.count(&v.taken) })
			clients = append(clients, f)
			for i := range uint32(streams) {
				f.ask(2*i+1, "GET", "/", true)
			}
		}
		first, last := v.stalls(t, most), 0
		for i := range int64(slowRounds) {
			for _, f := range clients {
				for i := range uint32(streams) {
					_ = f.WriteWindowUpdate(2*i+1, slowPiece)
				}
			}
			missing := func() int64 { return (i+1)*slowReaders*slowPiece - v.taken.Load() }
			until(t, func() string { return fmt.Sprint(missing(), " bytes are missing") }, func() bool {
				time.Sleep(10 * time.Millisecond)
				return missing() == 0
			})
			last = v.stalls(t, most)
		}
		v.goesOn(t, first, last)
		for _, f := range clients {
			_ = f.w.Close()
		}
		reading.Wait()
	})
}

// slowly connects, asks, and lets little be on its way.
func (v *slow) slowly(t *testing.T) net.Conn {
	t.Helper()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, slowSocket)
		})
	}}
	c, err := d.DialContext(t.Context(), "tcp", v.front)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.SetDeadline(time.Now().Add(patience)))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
	return c
}

// count counts the data of all streams until the connection ends.
func (f *wire2) count(taken *atomic.Int64) {
	for {
		fr, err := f.ReadFrame()
		if err != nil {
			return
		}
		if d, ok := fr.(*http2.DataFrame); ok {
			taken.Add(int64(len(d.Data())))
		}
	}
}
