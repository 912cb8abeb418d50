package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// trap is a filter that panics where the request's x-panic says.
type trap struct {
	cb filter.Callbacks
	at string
}

func (f *trap) step(name string) {
	if f.at == name {
		panic("trap at " + name)
	}
}

func (f *trap) DecodeHeaders(h *header.Map, _ bool) filter.HeadersStatus {
	f.at = strings.Clone(h.Get("x-panic"))
	switch f.step("request head"); f.at {
	case "work":
		f.cb.Go(func(context.Context) func() { panic("trap at work") })
		return filter.StopAllIterationAndBuffer
	case "result of work":
		f.cb.Go(func(context.Context) func() { return func() { panic("trap at result of work") } })
		return filter.StopAllIterationAndBuffer
	}
	return filter.Continue
}

func (f *trap) DecodeData(*filter.Buffer, bool) filter.DataStatus {
	f.step("request body")
	return filter.DataContinue
}

func (f *trap) DecodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func (f *trap) Encode1xx(*header.Map) {}

func (f *trap) EncodeHeaders(*header.Map, bool) filter.HeadersStatus {
	f.step("response head")
	return filter.Continue
}

func (f *trap) EncodeData(*filter.Buffer, bool) filter.DataStatus {
	f.step("response body")
	return filter.DataContinue
}

func (f *trap) EncodeTrailers(*header.Map) filter.TrailersStatus { return filter.TrailersContinue }

func (f *trap) OnStreamComplete() { f.step("completion") }

func (f *trap) OnDestroy() { f.step("destruction") }

const trapped = `
static_resources:
  listeners:
  - name: front
    address: {socket_address: {address: 127.0.0.1, port_value: 0}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: front
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: back}}]}]}
          http_filters:
          - name: trap
            typed_config: {"@type": type.googleapis.com/google.protobuf.StringValue, value: x}
          - name: router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - {name: back, load_assignment: {cluster_name: back, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: PORT}}}}]}]}}
`

// echoServer answers with the request's body.
func echoServer(t *testing.T) (port string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL[strings.LastIndexByte(s.URL, ':')+1:]
}

// streams makes requests at once, over one connection if it is HTTP/2, and
// returns the status or error of each.
func streams(t *testing.T, c *http.Client, url string, panics []string) []string {
	t.Helper()
	out := make([]string, len(panics))
	var all sync.WaitGroup
	for i, at := range panics {
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader("body"))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-Panic", at)
			resp, err := c.Do(req)
			if err != nil {
				out[i] = "error"
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			out[i] = fmt.Sprint(resp.StatusCode)
			if err != nil || resp.StatusCode == http.StatusOK && string(body) != "body" {
				out[i] = "error"
			}
		})
	}
	all.Wait()
	return out
}

// Partly proves OV-09: a filter that panics, wherever it does, fails its stream alone: the others of
// the same connection and worker go on, and nothing stays behind.
func TestPanicsOfFilters(t *testing.T) {
	kind := filter.HTTPType{
		Config: (*wrapperspb.StringValue)(nil),
		New: func(proto.Message, *filter.Env) (filter.HTTPFactory, error) {
			return func(cb filter.Callbacks) filter.HTTPFilter {
				f := &trap{cb: cb}
				return filter.HTTPFilter{Decoder: f, Encoder: f}
			}, nil
		},
	}
	r := start(t, strings.Replace(trapped, "PORT", echoServer(t), 1)+adminHere, func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddHTTP(kind) }
	})
	url := "http://" + r.Listeners()["front"][0]
	places := []string{"request head", "request body", "response head", "response body", "work", "result of work", "completion", "destruction"}
	var panics []string
	for range 10 {
		for _, p := range places {
			panics = append(panics, p, "")
		}
	}
	for _, version := range []int{1, 2} {
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetHTTP1(version == 1)
		tr.Protocols.SetUnencryptedHTTP2(version == 2)
		got := streams(t, &http.Client{Transport: tr, Timeout: 20 * time.Second}, url, panics)
		tr.CloseIdleConnections()
		for i, at := range panics {
			afterwards := at == "completion" || at == "destruction"
			switch {
			case at == "" && got[i] != "200":
				t.Errorf("HTTP/%d: a stream without a panic: %s", version, got[i])
			case !afterwards && at != "" && got[i] == "200":
				t.Errorf("HTTP/%d: a panic at %s: %s", version, at, got[i])
			}
		}
	}
	for _, at := range places {
		if n := strings.Count(r.log.String(), "trap at "+at); n < 20 {
			t.Errorf("the log has %d panics at %s, want 20", n, at)
		}
		if n := strings.Count(r.log.String(), `filter=trap panic="trap at `+at+`"`); n < 20 {
			t.Errorf("%d panics at %s are said to be the filter's, want 20", n, at)
		}
	}
	if n, want := r.number(t, "http.front.filter_panic"), strings.Count(r.log.String(), "trap at "); n != want {
		t.Errorf("%d panics are counted, the log has %d", n, want)
	}
	settled(t, r)
}

// settled waits until the proxy has no streams and no requests under way.
func settled(t *testing.T, r *running) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		var busy error
		for line := range strings.Lines(r.get(t, `/stats?filter=_active$`)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			// Connections to the server wait to be used again.
			if value != "0" && !strings.Contains(name, "admin") && !strings.Contains(name, "listeners_active") && !strings.Contains(name, "upstream_cx") {
				busy = errors.Join(busy, errors.New(line))
			}
		}
		if busy == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(busy)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
