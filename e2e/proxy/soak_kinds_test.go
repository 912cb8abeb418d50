//go:build interop

package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// soakUpstream is the upstream servers of a soak: a request's head says what to
// do with it.
type soakUpstream struct {
	*ledger
	mu    sync.Mutex
	seen  map[string]chan struct{} // closed when the request has come
	tries map[string]int
}

// expect makes a channel that is closed when a request has come.
func (u *soakUpstream) expect(id string) chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := make(chan struct{})
	u.seen[id] = c
	return c
}

// came notes a request and returns how often it has come.
func (u *soakUpstream) came(id string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	if c := u.seen[id]; c != nil {
		close(c)
		delete(u.seen, id)
	}
	u.tries[id]++
	return u.tries[id]
}

// ServeHTTP does what x-do says.
func (u *soakUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	cluster, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	u.add(1, "cluster."+cluster+".upstream_rq_total")
	u.host(cluster, "rq_total")
	try := u.came(r.Header.Get("X-Id"))
	do, arg, _ := strings.Cut(r.Header.Get("X-Do"), " ")
	n, _ := strconv.Atoi(arg)
	switch do {
	case "abort":
		panic(http.ErrAbortHandler)
	case "stall":
		_, _ = io.Copy(io.Discard, r.Body) // without it the end of the connection stays unnoticed
		<-r.Context().Done()
		return
	case "fail":
		if try <= n {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
	case "status":
		if n < 500 {
			u.host(cluster, "rq_success")
		}
		w.WriteHeader(n)
		return
	}
	u.host(cluster, "rq_success")
	switch do {
	case "echo":
		body, err := io.ReadAll(r.Body)
		if err != nil {
			u.wrong("%s: the body is cut off: %v", r.Header.Get("X-Id"), err)
		}
		_, _ = w.Write(body)
	case "big":
		_, _ = w.Write(make([]byte, n))
	case "cut", "half":
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		if do == "cut" {
			time.Sleep(20 * time.Millisecond) // the head must be on its way first
			panic(http.ErrAbortHandler)
		}
		<-r.Context().Done()
	}
}

// soakClient is a client of one listener.
type soakClient struct {
	listener, base string
	http           *http.Client
	transport      *http.Transport
}

func newSoakClient(t *testing.T, listener, base string, http2 bool) *soakClient {
	tr := &http.Transport{
		Protocols: new(http.Protocols), MaxIdleConnsPerHost: soakWorkers, DisableCompression: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // whom it talks to is not the question
	}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	tr.Protocols.SetHTTP2(http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &soakClient{listener, base, &http.Client{Transport: tr, Timeout: 20 * time.Second}, tr}
}

func (c *soakClient) close() { c.transport.CloseIdleConnections() }

// soakRequest is one request of a soak.
type soakRequest struct {
	id     string
	client *soakClient
	random *rand.Rand
}

func (r *soakRequest) pick(names ...string) string { return names[r.random.IntN(len(names))] }

// send sends the request; path begins with the cluster.
func (r *soakRequest) send(ctx context.Context, path, do string, body io.Reader) (*http.Response, error) {
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	} else {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, method, r.client.base+"/"+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Id", r.id)
	req.Header.Set("X-Do", do)
	return r.client.http.Do(req)
}

// plain makes a request whose response must be complete.
func (r *soakRequest) plain(s *soak, cluster, do string, status int, body, want []byte) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	r.finish(s, cluster, do, status, want)(r.send(context.Background(), cluster, do, reader)) //nolint:bodyclose // finish does
}

// finish reads a response that must be complete, and notes it.
func (r *soakRequest) finish(s *soak, cluster, do string, status int, want []byte) func(*http.Response, error) {
	return func(resp *http.Response, err error) {
		if err != nil {
			s.wrong("%s %s %s %s: %v", r.id, r.client.listener, cluster, do, err)
			return
		}
		defer resp.Body.Close()
		got, err := io.ReadAll(resp.Body)
		if resp.StatusCode != status || err != nil || want != nil && !bytes.Equal(got, want) {
			s.wrong("%s %s %s %s: %s, %d bytes, %v; want %d", r.id, r.client.listener, cluster, do, resp.Status, len(got), err, status)
		}
		s.answered(r.id, r.client.listener, cluster, resp.StatusCode)
	}
}

// slowly gives or takes bytes with pauses.
type slowly struct{ io.Reader }

func (r slowly) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return r.Reader.Read(b[:min(len(b), 16<<10)])
}

// soakKinds are the kinds of requests.
func soakKinds() []func(*soak, *soakRequest) {
	return []func(*soak, *soakRequest){
		soakGet, soakGet, soakGet, soakEcho, soakEcho, soakStatus, soakNoRoute, soakRetry, soakAborted, soakCut,
		soakSlowReader, soakSlowWriter, soakTimeout, soakLeaveWaiting, soakLeaveHalf, soakLeaveUpload,
	}
}

func soakGet(s *soak, r *soakRequest) { r.plain(s, r.pick("one", "two"), "", 200, nil, []byte{}) }

func soakEcho(s *soak, r *soakRequest) {
	body := make([]byte, 1+r.random.IntN(200_000))
	for i := range body {
		body[i] = byte(r.random.Uint32())
	}
	r.plain(s, r.pick("one", "two"), "echo", 200, body, body)
}

func soakStatus(s *soak, r *soakRequest) {
	status := r.pick("404", "500", "503")
	n, _ := strconv.Atoi(status)
	r.plain(s, r.pick("one", "two"), "status "+status, n, nil, nil)
}

func soakNoRoute(s *soak, r *soakRequest) {
	r.finish(s, "", "", 404, []byte{})(r.send(context.Background(), "nowhere", "", nil)) //nolint:bodyclose // finish does
}

// soakRetry fails one to three times; two retries are made.
func soakRetry(s *soak, r *soakRequest) {
	fails := 1 + r.random.IntN(3)
	const prefix = "cluster.retry.upstream_rq_retry"
	s.add(min(fails, 2), prefix)
	status := 200
	if fails == 3 {
		status = 503
		s.add(1, prefix+"_limit_exceeded")
	} else {
		s.add(1, prefix+"_success")
	}
	r.plain(s, "retry", "fail "+strconv.Itoa(fails), status, nil, nil)
}

// soakAborted is reset by the server before its response.
func soakAborted(s *soak, r *soakRequest) { r.plain(s, r.pick("one", "two"), "abort", 503, nil, nil) }

// soakCut is reset by the server within its response.
func soakCut(s *soak, r *soakRequest) {
	cluster := r.pick("one", "two")
	resp, err := r.send(context.Background(), cluster, "cut", nil)
	if err != nil {
		s.wrong("%s cut: %v", r.id, err)
		return
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); err == nil || string(got) != "half" {
		s.wrong("%s %s %s cut: %q, %v", r.id, r.client.listener, cluster, got, err)
	}
	s.answered(r.id, r.client.listener, cluster, resp.StatusCode)
}

func soakSlowReader(s *soak, r *soakRequest) {
	cluster := r.pick("one", "two")
	size := 100_000 + r.random.IntN(400_000)
	resp, err := r.send(context.Background(), cluster, "big "+strconv.Itoa(size), nil) //nolint:bodyclose // finish does
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{slowly{resp.Body}, resp.Body}
	}
	r.finish(s, cluster, "big", 200, make([]byte, size))(resp, err) //nolint:bodyclose // finish does
}

func soakSlowWriter(s *soak, r *soakRequest) {
	cluster := r.pick("one", "two")
	body := make([]byte, 100_000+r.random.IntN(200_000))
	r.finish(s, cluster, "echo", 200, body)(r.send(context.Background(), cluster, "echo", slowly{bytes.NewReader(body)})) //nolint:bodyclose // finish does
}

func soakTimeout(s *soak, r *soakRequest) {
	s.add(1, "cluster.slow.upstream_rq_timeout")
	s.host("slow", "rq_timeout")
	r.plain(s, "slow", "stall", 504, nil, nil)
}

// leave gives a request up: once the server has it, or its response has begun.
func (r *soakRequest) leave(s *soak, do string, upload int, begun bool) {
	cluster := r.pick("one", "two")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seen := s.upstr.expect(r.id)
	if !begun {
		go func() {
			<-seen
			cancel()
		}()
	}
	var body io.Reader
	if upload > 0 {
		body = &unfinished{ctx, upload}
	}
	resp, err := r.send(ctx, cluster, do, body)
	switch {
	case err == nil && begun:
		_, _ = io.ReadFull(resp.Body, make([]byte, 4))
		cancel()
		_ = resp.Body.Close()
		s.answered(r.id, r.client.listener, cluster, resp.StatusCode)
	case err == nil:
		_ = resp.Body.Close()
		s.wrong("%s %s: answered", r.id, do)
	case begun:
		s.wrong("%s %s: %v", r.id, do, err)
	default:
		s.answered(r.id, r.client.listener, cluster, 0)
	}
}

func soakLeaveWaiting(s *soak, r *soakRequest) { r.leave(s, "stall", 0, false) }

func soakLeaveHalf(s *soak, r *soakRequest) { r.leave(s, "half", 0, true) }

// soakLeaveUpload is given up in the middle of its body.
func soakLeaveUpload(s *soak, r *soakRequest) { r.leave(s, "stall", 50_000, false) }

// unfinished is a body of which no more comes after some bytes.
type unfinished struct {
	ctx  context.Context //nolint:containedctx // of the request
	left int
}

func (u *unfinished) Read(b []byte) (int, error) {
	if u.left == 0 {
		<-u.ctx.Done()
		return 0, u.ctx.Err()
	}
	n := min(len(b), u.left)
	u.left -= n
	return n, nil
}
