//go:build interop

package living

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/xebec-proxy/xebec/internal/testpeer"
)

// load is constant traffic through a proxy. Whatever fails fails the test.
type load struct {
	t            testing.TB
	tls          *tls.Config
	began        time.Time
	failed, done atomic.Int64
	stop         chan struct{}
	release      chan struct{} // ends the downloads
	work         sync.WaitGroup
	once         sync.Once

	mu     sync.Mutex
	kinds  map[string]int // requests by kind
	recent []string       // the last changes
}

func newLoad(t testing.TB, config *tls.Config) *load {
	return &load{t: t, tls: config, began: time.Now(), stop: make(chan struct{}), release: make(chan struct{}), kinds: map[string]int{}}
}

// report tells how much went through, and fails the test if that is too little
// to mean something.
func (l *load) report(changes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.t.Logf("%d changes, %d requests in %v, %d failures; %v", changes, l.done.Load(), time.Since(l.began).Round(time.Millisecond), l.failed.Load(), l.kinds)
	for kind, n := range l.kinds {
		if n == 0 {
			l.t.Errorf("%s: nothing was sent", kind)
		}
	}
	if l.done.Load() < int64(10*changes) {
		l.t.Errorf("only %d requests in %d changes", l.done.Load(), changes)
	}
}

// end stops sending and waits for what is under way. It may be called twice.
func (l *load) end() {
	l.once.Do(func() {
		close(l.release)
		close(l.stop)
	})
	l.work.Wait()
}

func (l *load) ended() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

// failure is counted, and the first ones are told of.
func (l *load) failure(kind string, err error) {
	if l.failed.Add(1) <= 10 {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.t.Errorf("%v after the start: %s: %v; changes before: %q", time.Since(l.began).Round(time.Millisecond), kind, err, l.recent)
	}
}

// happened notes what may be to blame for failures.
func (l *load) happened(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.recent = append(l.recent, fmt.Sprintf("%v %s", time.Since(l.began).Round(time.Millisecond), what))
	l.recent = l.recent[max(0, len(l.recent)-6):]
}

func (l *load) counted(kind string) {
	l.done.Add(1)
	l.mu.Lock()
	l.kinds[kind]++
	l.mu.Unlock()
}

// repeat calls something until the end, with a pause between.
func (l *load) repeat(kind string, pause time.Duration, one func(i int) error, finally func()) {
	l.work.Go(func() {
		defer finally()
		for i := 0; !l.ended(); i++ {
			if err := one(i); err != nil {
				l.failure(kind, err)
			}
			l.counted(kind)
			time.Sleep(pause)
		}
	})
}

const pause = 4 * time.Millisecond

// requests sends requests one after another. They have a body, so that no
// transport sends one again that has been lost.
func (l *load) requests(kind, scheme string, port int, tr *http.Transport) {
	client := &http.Client{Transport: tr, Timeout: 25 * time.Second}
	url := fmt.Sprintf("%s://localhost:%d/", scheme, port)
	l.repeat(kind, pause, func(i int) error { return testpeer.Post(context.Background(), client, url, 10+i%5000) }, tr.CloseIdleConnections)
}

func h2c() *http.Transport {
	var p http.Protocols
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: &p}
}

func (l *load) overTLS(h2 bool) *http.Transport {
	return &http.Transport{TLSClientConfig: l.tls.Clone(), ForceAttemptHTTP2: h2}
}

// rpcs makes unary calls one after another; in TLS if told.
func (l *load) rpcs(kind string, port int, secure bool) {
	c := insecure.NewCredentials()
	if secure {
		c = credentials.NewTLS(l.tls.Clone())
	}
	conn, err := grpc.NewClient("passthrough:///localhost:"+strconv.Itoa(port), grpc.WithTransportCredentials(c))
	if err != nil {
		l.t.Fatal(err)
	}
	client := healthpb.NewHealthClient(conn)
	l.repeat(kind, pause, func(int) error {
		ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
		defer cancel()
		resp, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
		if err == nil && resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("health is %v", resp.GetStatus())
		}
		return err
	}, func() { _ = conn.Close() })
}
