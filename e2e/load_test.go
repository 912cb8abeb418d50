//go:build interop

package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// get requests a URL once and returns the name of the backend that answered.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return string(body), nil
}

// newClient makes an HTTP client whose connections end with the test.
func newClient(t *testing.T, config *tls.Config) *http.Client {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 64}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// answers waits until a URL is answered by the named backend. It returns how
// long that took.
func answers(t *testing.T, url, backend string) time.Duration {
	t.Helper()
	client := newClient(t, nil)
	return harness.Eventually(t, 10*time.Second, url+" answered by "+backend, func() error {
		return answeredBy(t, client, url, backend)
	})
}

func answeredBy(t *testing.T, client *http.Client, url, backend string) error {
	t.Helper()
	got, err := get(t.Context(), client, url)
	if err == nil && got != backend {
		err = fmt.Errorf("answered by %s", got)
	}
	return err
}

// load sends requests at a steady rate and keeps count of how they end.
type load struct {
	url    string
	client *http.Client
	start  time.Time
	quit   chan struct{}
	done   sync.WaitGroup

	mu       sync.Mutex
	answered map[string]int
	failures []string
}

// loadInterval is the time between two requests of a load.
const loadInterval = 5 * time.Millisecond

// startLoad requests a URL 200 times a second until stop, or the test's end.
func startLoad(t *testing.T, url string) *load {
	t.Helper()
	l := &load{url: url, client: newClient(t, nil), start: time.Now(), quit: make(chan struct{}), answered: map[string]int{}}
	l.done.Go(func() {
		tick := time.NewTicker(loadInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				l.done.Go(l.request)
			case <-l.quit:
				return
			}
		}
	})
	t.Cleanup(l.end)
	return l
}

func (l *load) request() {
	sent := time.Since(l.start)
	backend, err := get(context.Background(), l.client, l.url)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failures = append(l.failures, fmt.Sprintf("sent at %v, after %v: %v", sent, time.Since(l.start)-sent, err))
		return
	}
	l.answered[backend]++
}

// end stops sending and waits for what is under way. It may be called twice.
func (l *load) end() {
	select {
	case <-l.quit:
	default:
		close(l.quit)
	}
	l.done.Wait()
}

// stop ends the load. It fails the test if a request failed, or if so few were
// sent that the result means little.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.end()
	took := time.Since(l.start)
	total := len(l.failures)
	for _, n := range l.answered {
		total += n
	}
	t.Logf("%d requests in %v: answered by %v, %d failed", total, took.Round(time.Millisecond), l.answered, len(l.failures))
	for i, failure := range l.failures {
		if i == 10 {
			t.Errorf("and %d more", len(l.failures)-i)
			break
		}
		t.Errorf("request lost: %s", failure)
	}
	if least := int(took / loadInterval / 5); total < least { // a busy machine sends late
		t.Errorf("only %d requests were sent in %v, want %d", total, took, least)
	}
}

// goOn waits for a number of further answers.
func (l *load) goOn(t *testing.T, answers int) {
	t.Helper()
	want := l.count("a") + l.count("b") + answers
	harness.Eventually(t, 10*time.Second, "answers go on", func() error {
		if got := l.count("a") + l.count("b"); got < want {
			return fmt.Errorf("%d answers, want %d", got, want)
		}
		return nil
	})
}

// count is how many requests were answered so far by a backend.
func (l *load) count(backend string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered[backend]
}
