//go:build interop

package proxy

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const (
	// large is how much is transferred each way, in bytes.
	large = 1 << 30
	// growth is how much memory the proxy may hold of it, in bytes: more than the
	// window of a stream, by default 16 MiB, which a sender of HTTP/2 may fill.
	growth = 20 << 20
)

// stalling is an upstream server that sends or takes a lot; it stops taking
// until it may go on.
type stalling struct {
	moved atomic.Int64
	goOn  chan struct{}
}

func (s *stalling) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b := make([]byte, 64<<10)
	if r.Method == http.MethodGet {
		w.Header().Set("Content-Length", strconv.Itoa(large))
		for n := 0; n < large; n += len(b) {
			if _, err := w.Write(b); err != nil {
				return
			}
			s.moved.Add(int64(len(b)))
		}
		return
	}
	stopped := false
	var total int64
	for {
		n, err := r.Body.Read(b)
		total += int64(n)
		if err != nil {
			break
		}
		if total > 1<<20 && !stopped {
			stopped = true
			<-s.goOn
		}
	}
	fmt.Fprint(w, total)
}

// counting counts what is read of a body.
type counting struct {
	left  int
	moved *atomic.Int64
}

func (c *counting) Read(b []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	n := min(len(b), c.left)
	c.left -= n
	c.moved.Add(int64(n))
	return n, nil
}

// memory is the resident memory of the proxy in bytes, without its program.
func (s *server) memory(t testing.TB) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.PID()), "status"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "RssAnon:")
	fields := strings.Fields(rest)
	kb, err := strconv.Atoi(fields[0])
	if err != nil {
		t.Fatal(err)
	}
	return kb << 10
}

// holds checks that the proxy, while nothing moves, holds little more than it
// did at first. It gives garbage back after a second or so.
func (s *server) holds(t testing.TB, what string, before int) {
	t.Helper()
	least := 0
	for range 50 {
		now := s.memory(t)
		if least == 0 || now < least {
			least = now
		}
		if now-before <= growth {
			t.Logf("%s: %d KiB more than at first", what, (now-before)>>10)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("%s: the proxy holds %d KiB more than at first, allowed are %d KiB", what, (least-before)>>10, growth>>10)
}

// quiet waits until nothing moves any more, because one side has stalled.
func quiet(t testing.TB, moved *atomic.Int64) int64 {
	t.Helper()
	last := int64(-1)
	for range 200 {
		n := moved.Load()
		if n == last && n > 0 {
			return n
		}
		last = n
		time.Sleep(300 * time.Millisecond)
	}
	t.Fatal("it never stalls")
	return 0
}

// Partly proves HF-09: of a gigabyte whose receiver has stopped to read, the
// proxy holds little, in both directions and versions of HTTP; when the receiver
// goes on, all of it arrives.
func TestStalledReceivers(t *testing.T) {
	for _, version := range []string{"h1", "h2"} {
		t.Run(version, func(t *testing.T) {
			up := &stalling{goOn: make(chan struct{})}
			b := (&bootstrap{clusters: []cluster{{name: "large", ports: []int{serve(t, false, up)}, http2: version == "h2", route: "timeout: 0s"}}}).ports(t)
			s := xebec().start(t, b.yaml())
			port := map[string]int{"h1": b.h1, "h2": b.h2}[version]
			c := newSoakClient(t, version, fmt.Sprintf("http://127.0.0.1:%d/large", port), version == "h2")
			c.http.Timeout = 2 * time.Minute
			before := s.memory(t)
			download(t, c, up, func() { s.holds(t, "download", before) })
			upload(t, c, up, func() { s.holds(t, "upload", before) })
			c.close()
			s.idle(t)
		})
	}
}

func download(t *testing.T, c *soakClient, up *stalling, stalled func()) {
	t.Helper()
	resp, err := c.http.Get(c.base)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 1<<20); err != nil {
		t.Fatal(err)
	}
	if n := quiet(t, &up.moved); n > large/2 {
		t.Errorf("%d bytes have been sent while the client does not read", n)
	}
	stalled()
	n, err := io.Copy(io.Discard, resp.Body)
	if n != large-1<<20 || err != nil {
		t.Errorf("download: %d bytes more, %v", n, err)
	}
}

func upload(t *testing.T, c *soakClient, up *stalling, stalled func()) {
	t.Helper()
	body := &counting{left: large, moved: new(atomic.Int64)}
	go func() {
		if n := quiet(t, body.moved); n > large/2 {
			t.Errorf("%d bytes have been taken while the server does not read", n)
		}
		stalled()
		close(up.goOn)
	}()
	resp, err := c.http.Post(c.base, "application/octet-stream", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if string(got) != strconv.Itoa(large) || err != nil {
		t.Errorf("upload: %q, %v", got, err)
	}
}
