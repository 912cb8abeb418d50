//go:build interop

package proxy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// misbehaviour is an upstream server that does something wrong, or something
// unusual.
type misbehaviour struct {
	name string
	play func(*net.TCPConn)
	// differs says why Xebec answers another way than Envoy, and want how, as
	// outcome prints it.
	differs, want string
	// racy says that the flags depend on which of two things comes first.
	racy bool
}

// outcome is what a client gets for a request.
type outcome struct {
	status   int
	body     int
	complete bool
}

func (o outcome) String() string {
	if o.status == 0 {
		return "no response"
	}
	cut := ""
	if !o.complete {
		cut = " cut off"
	}
	return fmt.Sprintf("%d with %d bytes%s", o.status, o.body, cut)
}

// ask makes a request on a connection of its own.
func ask(t testing.TB, port int, path string, body string) outcome {
	t.Helper()
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: test\r\nX-Case: %s\r\nContent-Length: %d\r\n\r\n%s", method, path, path, len(body), body)
	r := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return outcome{}
		}
		if resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
			continue
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		o := outcome{resp.StatusCode, int(n), err == nil}
		if resp.StatusCode >= 500 {
			o.body = 0 // texts of the proxy's own answers are compared elsewhere
		}
		return o
	}
}

// misbehaving runs a proxy with a cluster for each misbehaviour and one that
// behaves, and returns the outcomes with the flags of the access log.
func misbehaving(t *testing.T, b brand, list []misbehaviour, http2 bool) map[string]string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "access.log")
	boot := &bootstrap{h1: harness.FreePort(t), log: log, format: "%REQ(x-case)% %RESPONSE_FLAGS%\n"}
	for i, m := range list {
		boot.clusters = append(boot.clusters, cluster{name: fmt.Sprintf("c%d", i), ports: []int{peer(t, m.play)}, http2: http2, route: "timeout: 0.7s"})
	}
	boot.clusters = append(boot.clusters, cluster{name: "good", ports: []int{echo(t, false)}, http2: http2})
	s := b.start(t, boot.yaml())
	out := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i, m := range list {
		all.Go(func() {
			// Twice: what a connection is left with must not hurt the next request.
			first := ask(t, boot.h1, fmt.Sprintf("/c%d/1", i), "")
			second := ask(t, boot.h1, fmt.Sprintf("/c%d/2", i), "body")
			mu.Lock()
			defer mu.Unlock()
			out[m.name] = fmt.Sprintf("%v, %v", first, second)
		})
	}
	all.Wait()
	if o := ask(t, boot.h1, "/good", ""); o != (outcome{200, 5, true}) {
		t.Errorf("%s, afterwards: %v", s.Name, o)
	}
	s.idle(t)
	flags := logFlags(t, log, 2*len(list)+1)
	for i, m := range list {
		out[m.name] += fmt.Sprintf("; %s, %s", flags[fmt.Sprintf("/c%d/1", i)], flags[fmt.Sprintf("/c%d/2", i)])
	}
	return out
}

// logFlags reads the flags of an access log, by the first word of its lines.
func logFlags(t *testing.T, file string, lines int) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, line := range logLines(t, file, 5*time.Second, lines) {
		name, flags, _ := strings.Cut(line, " ")
		out[name] = flags
	}
	return out
}

// logLines waits until an access log has a number of lines, and returns them.
// More lines fail the test.
func logLines(t *testing.T, file string, limit time.Duration, want int) []string {
	t.Helper()
	var lines []string
	harness.Eventually(t, limit, "the access log is complete", func() error {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if n := bytes.Count(data, []byte("\n")); n < want {
			return fmt.Errorf("%d lines, want %d", n, want)
		}
		lines = lines[:0]
		for line := range strings.Lines(string(data)) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return nil
	})
	if len(lines) > want {
		t.Errorf("the access log has %d lines, want %d", len(lines), want)
	}
	return lines
}

// compare runs both proxies and reports where they differ without saying so.
func compare(t *testing.T, list []misbehaviour, http2 bool) {
	t.Helper()
	got := misbehaving(t, xebec(), list, http2)
	want := misbehaving(t, envoy(), list, http2)
	for _, m := range list {
		if m.racy {
			got[m.name], _, _ = strings.Cut(got[m.name], ";")
			want[m.name], _, _ = strings.Cut(want[m.name], ";")
		}
		switch {
		case m.differs == "" && got[m.name] != want[m.name]:
			t.Errorf("%s:\n Xebec %s\n Envoy %s", m.name, got[m.name], want[m.name])
		case m.differs != "" && got[m.name] != m.want:
			t.Errorf("%s (%s):\n Xebec %s\n want  %s\n Envoy %s", m.name, m.differs, got[m.name], m.want, want[m.name])
		case m.differs != "" && got[m.name] == want[m.name]:
			t.Errorf("%s: Envoy answers %s, too: it is no difference", m.name, got[m.name])
		}
	}
}
