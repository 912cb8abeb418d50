package rest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/rest"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const delay = 10 * time.Second

// fake is a server that answers as it is told, and notes what it is asked.
type fake struct {
	t      *testing.T
	answer func(n int, r *discoveryv3.DiscoveryRequest) (int, string)

	mu    sync.Mutex
	polls []poll
}

type poll struct {
	at   time.Time
	host string
	req  *discoveryv3.DiscoveryRequest
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" || !bytes.Contains(body, []byte("resource_names")) && !bytes.Contains(body, []byte(`"node"`)) {
		f.t.Errorf("%s %v %s", r.Method, r.Header, body)
	}
	req := &discoveryv3.DiscoveryRequest{}
	if err := protojson.Unmarshal(body, req); err != nil {
		f.t.Errorf("%s: %v", body, err)
	}
	f.mu.Lock()
	f.polls = append(f.polls, poll{time.Now(), r.Host + r.URL.Path, req})
	n := len(f.polls)
	f.mu.Unlock()
	code, text := f.answer(n, req)
	if code == 0 { // never
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}}, nil
}

func (f *fake) all() []poll {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.polls)
}

func clusters(version string, names ...string) string {
	var list []string
	for _, n := range names {
		list = append(list, fmt.Sprintf(`{"@type":%q,"name":%q}`, xds.ClusterType, n))
	}
	return fmt.Sprintf(`{"versionInfo":%q,"nonce":"n%s","typeUrl":%q,"resources":[%s]}`, version, version, xds.ClusterType, strings.Join(list, ","))
}

func transport(t *testing.T, rt http.RoundTripper, urls ...string) *rest.Transport {
	t.Helper()
	cfg := rest.Config{RefreshDelay: delay}
	for _, u := range append(urls, "http://one") {
		cfg.Targets = append(cfg.Targets, rest.Target{URL: u, RoundTripper: rt})
	}
	tr, err := rest.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// polling runs a test on a stream of clusters, in virtual time.
func polling(t *testing.T, f *fake, test func(st xdsclient.Stream)) {
	t.Helper()
	f.t = t
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		st, err := transport(t, f).Open(ctx, xdsclient.Opening{TypeURL: xds.ClusterType, Node: &corev3.Node{Id: "me"}})
		if err != nil {
			t.Fatal(err)
		}
		test(st)
	})
}

func send(t *testing.T, st xdsclient.Stream, r client.Request) {
	t.Helper()
	r.TypeURL = xds.ClusterType
	if err := st.Send(&r); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, st xdsclient.Stream) *client.Response {
	t.Helper()
	r, err := st.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Proves XR-10: what has to be given.
func TestConfig(t *testing.T) {
	good := rest.Config{RefreshDelay: time.Second, Targets: []rest.Target{{URL: "https://h:1/base/"}}}
	if tr, err := rest.New(good); err != nil || tr.Patience() <= 2*time.Second {
		t.Errorf("a good configuration: %v", err)
	} else if err := tr.Close(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*rest.Config){
		"refresh_delay":   func(c *rest.Config) { c.RefreshDelay = 0 },
		"request_timeout": func(c *rest.Config) { c.RequestTimeout = -1 },
		"cluster_names":   func(c *rest.Config) { c.Targets = nil },
		"limit":           func(c *rest.Config) { c.MaxResponseBytes = -1 },
		"targets[0]":      func(c *rest.Config) { c.Targets = []rest.Target{{URL: "h:1"}} },
		"is not of":       func(c *rest.Config) { c.Targets = []rest.Target{{URL: "ftp://h"}} },
	} {
		c := good
		spoil(&c)
		if _, err := rest.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one about %q", err, want)
		}
	}
	tr := transport(t, &fake{t: t})
	for want, o := range map[string]xdsclient.Opening{
		"aggregated": {}, "delta": {TypeURL: xds.ClusterType, Delta: true}, "REST path": {TypeURL: xds.VirtualHostType},
	} {
		if _, err := tr.Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one about %q", err, want)
		}
	}
}

// Proves BS-28 with TestConfig and TestFailures. Proves XR-10 and GC-71: the time between polls, and that 304 is no change.
func TestDelay(t *testing.T) {
	f := &fake{answer: func(n int, r *discoveryv3.DiscoveryRequest) (int, string) {
		if n%50 == 1 {
			return http.StatusOK, clusters(fmt.Sprint(n), "a")
		}
		return http.StatusNotModified, ""
	}}
	polling(t, f, func(st xdsclient.Stream) {
		begun := time.Now()
		send(t, st, client.Request{})
		first := receive(t, st)
		if first.Version != "1" || len(first.Resources) != 1 || first.TypeURL != xds.ClusterType || time.Since(begun) != 0 {
			t.Errorf("the first poll brings %+v after %s", first, time.Since(begun))
		}
		send(t, st, client.Request{Answer: true, Version: "1", Nonce: "n1"})
		if next := receive(t, st); next.Version != "51" {
			t.Errorf("then came %+v", next)
		}
		polls := f.all()
		if len(polls) != 51 || polls[0].host != "one/v3/discovery:clusters" || polls[0].req.GetNode().GetId() != "me" {
			t.Fatalf("%d polls, %v", len(polls), polls[0])
		}
		gaps := map[time.Duration]bool{}
		for i, p := range polls[1:] {
			d := p.at.Sub(polls[i].at)
			gaps[d] = true
			if d < delay || d > 2*delay {
				t.Errorf("poll %d came after %s", i+1, d)
			}
			if p.req.GetVersionInfo() != "1" || p.req.GetNode().GetId() != "me" || p.req.GetTypeUrl() != xds.ClusterType {
				t.Errorf("poll %d is %v", i+1, p.req)
			}
		}
		if len(gaps) < 10 {
			t.Errorf("only %d different delays", len(gaps))
		}
	})
}

// Proves XR-11: changed names take effect with the next poll; a version that
// does not speak for a new name is not sent.
func TestNames(t *testing.T) {
	f := &fake{answer: func(n int, r *discoveryv3.DiscoveryRequest) (int, string) {
		return http.StatusOK, clusters(fmt.Sprint(n), r.GetResourceNames()...)
	}}
	polling(t, f, func(st xdsclient.Stream) {
		send(t, st, client.Request{Names: []string{"a", "b"}})
		receive(t, st)
		send(t, st, client.Request{Answer: true, Version: "1", Nonce: "n1", Names: []string{"a", "b"}})
		time.Sleep(delay / 2)
		send(t, st, client.Request{Names: []string{"a"}})
		time.Sleep(delay / 4)
		send(t, st, client.Request{Names: []string{"a", "c"}})
		if n := len(f.all()); n != 1 {
			t.Errorf("%d polls", n)
		}
		receive(t, st)
		p := f.all()[1]
		if !slices.Equal(p.req.GetResourceNames(), []string{"a", "c"}) || p.req.GetVersionInfo() != "" || p.at.Sub(f.all()[0].at) < delay {
			t.Errorf("the second poll is %v", p)
		}
		send(t, st, client.Request{Answer: true, Version: "2", Nonce: "n2", Names: []string{"c"}})
		receive(t, st)
		if got := f.all()[2].req; got.GetVersionInfo() != "2" || !slices.Equal(got.GetResourceNames(), []string{"c"}) {
			t.Errorf("with a name less: %v", got)
		}
		// Nothing is wanted any more: nothing is asked.
		send(t, st, client.Request{Answer: true, Version: "3", Nonce: "n3"})
		done := make(chan error, 1)
		go func() {
			_, err := st.Recv()
			done <- err
		}()
		time.Sleep(20 * delay)
		if n := len(f.all()); n != 3 {
			t.Errorf("%d polls while nothing is wanted", n)
		}
		send(t, st, client.Request{Names: []string{"*"}})
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := f.all()[3].req.GetResourceNames(); len(got) != 0 {
			t.Errorf("the wildcard is asked for as %v", got)
		}
	})
}

// A request in flight does not speak for names that came after it.
func TestNamesInFlight(t *testing.T) {
	f := &fake{}
	var st xdsclient.Stream
	f.answer = func(n int, r *discoveryv3.DiscoveryRequest) (int, string) {
		if n == 1 {
			send(f.t, st, client.Request{Names: []string{"a", "b"}})
		}
		return http.StatusOK, clusters("v", "a")
	}
	polling(t, f, func(s xdsclient.Stream) {
		st = s
		send(t, st, client.Request{Names: []string{"a"}})
		receive(t, st)
		send(t, st, client.Request{Answer: true, Version: "v", Names: []string{"a", "b"}})
		receive(t, st)
		if got := f.all()[1].req; got.GetVersionInfo() != "" || len(got.GetResourceNames()) != 2 {
			t.Errorf("the second poll is %v", got)
		}
	})
}

// What was given up and is wanted again is asked for in full, although it was
// part of the last answer: it has been forgotten.
func TestNamesAgain(t *testing.T) {
	f := &fake{answer: func(int, *discoveryv3.DiscoveryRequest) (int, string) { return http.StatusOK, clusters("v", "a", "b") }}
	polling(t, f, func(st xdsclient.Stream) {
		send(t, st, client.Request{Names: []string{"a", "b"}})
		receive(t, st)
		send(t, st, client.Request{Answer: true, Version: "v", Names: []string{"a", "b"}})
		send(t, st, client.Request{Names: []string{"a"}})
		send(t, st, client.Request{Names: []string{"a", "b"}})
		receive(t, st)
		if got := f.all()[1].req; got.GetVersionInfo() != "" || len(got.GetResourceNames()) != 2 {
			t.Errorf("the second poll is %v", got)
		}
	})
}

// A rejection is told with every poll until there is something else.
func TestRejection(t *testing.T) {
	f := &fake{answer: func(n int, _ *discoveryv3.DiscoveryRequest) (int, string) {
		switch n {
		case 1, 2:
			return http.StatusOK, clusters(fmt.Sprint(n), "a")
		case 6:
			return http.StatusOK, clusters("good", "a")
		}
		return http.StatusNotModified, ""
	}}
	polling(t, f, func(st xdsclient.Stream) {
		send(t, st, client.Request{})
		receive(t, st)
		send(t, st, client.Request{Answer: true, Version: "1", Nonce: "n1"})
		receive(t, st)
		send(t, st, client.Request{Answer: true, Version: "1", Nonce: "n2", Error: "bad"})
		receive(t, st)
		for _, p := range f.all()[2:] {
			if e := p.req.GetErrorDetail(); e.GetMessage() != "bad" || e.GetCode() != 3 || p.req.GetResponseNonce() != "n2" || p.req.GetVersionInfo() != "1" {
				t.Errorf("the poll is %v", p.req)
			}
		}
		send(t, st, client.Request{Answer: true, Version: "good", Nonce: "ngood"})
		go func() { _, _ = st.Recv() }()
		time.Sleep(3 * delay)
		if got := f.all()[6].req; got.GetErrorDetail() != nil || got.GetVersionInfo() != "good" {
			t.Errorf("afterwards: %v", got)
		}
	})
}

// Proves XR-10: the request timeout, and other targets after every kind of
// failure.
func TestFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		code int
		text string
		want string
		took time.Duration
	}{
		"timeout":      {0, "", "deadline", time.Second},
		"503":          {503, `{"message":"not loaded"}`, `503 (Service Unavailable): {"message":"not loaded"}`, 0},
		"404":          {404, "", "404 (Not Found): no reason given", 0},
		"redirect":     {302, "", "302", 0},
		"204":          {204, "", "204", 0},
		"no body":      {200, "", "without a body", 0},
		"no 304":       {304, "", "304", 0},
		"large answer": {200, clusters(strings.Repeat("v", 2000), "a"), "larger than 1000 bytes", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{t: t, answer: func(int, *discoveryv3.DiscoveryRequest) (int, string) { return tt.code, tt.text }}
				tr, err := rest.New(rest.Config{
					RefreshDelay: delay, MaxResponseBytes: 1000,
					Targets: []rest.Target{{URL: "http://a", RoundTripper: f}, {URL: "http://b", RoundTripper: f}},
				})
				if err != nil {
					t.Fatal(err)
				}
				for range 3 {
					st, err := tr.Open(t.Context(), xdsclient.Opening{TypeURL: xds.ClusterType, Node: &corev3.Node{Id: "me"}})
					if err != nil {
						t.Fatal(err)
					}
					send(t, st, client.Request{})
					begun := time.Now()
					if _, err := st.Recv(); err == nil || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("the error is %v, want %q", err, tt.want)
					}
					if d := time.Since(begun); d != tt.took {
						t.Errorf("it took %s, want %s", d, tt.took)
					}
				}
				var asked []string
				for _, p := range f.all() {
					asked = append(asked, p.host[:1])
				}
				if got := strings.Join(asked, ""); got != "aba" {
					t.Errorf("asked were %s", got)
				}
			})
		})
	}
}

// What cannot be read is rejected, and polling goes on.
func TestUnreadable(t *testing.T) {
	answers := []string{
		`{"nonce":"x","resources":[{"@type":"type.googleapis.com/no.such.Type"}]}`,
		`not JSON`,
		`{"nonce":"y","typeUrl":"type.googleapis.com/envoy.config.listener.v3.Listener"}`,
		clusters("1", "a"),
	}
	f := &fake{answer: func(n int, _ *discoveryv3.DiscoveryRequest) (int, string) { return http.StatusOK, answers[n-1] }}
	polling(t, f, func(st xdsclient.Stream) {
		send(t, st, client.Request{})
		receive(t, st)
		for i, want := range [][2]string{{"x", "no.such.Type"}, {"", "JSON"}, {"y", "of type"}} {
			r := f.all()[i+1].req
			if r.GetResponseNonce() != want[0] || !strings.Contains(r.GetErrorDetail().GetMessage(), want[1]) {
				t.Errorf("after answer %d: %v", i, r)
			}
		}
	})
}

// A stream ends with its context, whatever it is at.
func TestEnd(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{t: t, answer: func(int, *discoveryv3.DiscoveryRequest) (int, string) { return 0, "" }}
			ctx, cancel := context.WithCancel(t.Context())
			st, err := transport(t, f, "http://zero").Open(ctx, xdsclient.Opening{TypeURL: xds.ClusterType})
			if err != nil {
				t.Fatal(err)
			}
			if wanted {
				send(t, st, client.Request{Names: []string{"a"}})
			}
			if err := st.Send(&client.Request{TypeURL: xds.RouteType}); err == nil {
				t.Error("a request for another type is accepted")
			}
			time.AfterFunc(time.Millisecond, cancel)
			if _, err := st.Recv(); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// handler is a server without a network.
type handler struct{ http.Handler }

func (h handler) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), nil
}

// A source that polls a real server: Proves XR-09 with both sides.
func TestSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := xdsserver.New()
		if err != nil {
			t.Fatal(err)
		}
		set := func(alt string, names ...string) {
			var list []*xds.Resource
			for _, n := range names {
				r, err := xds.Marshal(n, &clusterv3.Cluster{Name: n, AltStatName: alt})
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, r)
			}
			c := snapshot.Changes{Set: list, Replace: true}
			if err := srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{xdsserver.DefaultGroup: c}}); err != nil {
				t.Fatal(err)
			}
		}
		set("first", "a", "b")
		tr := transport(t, handler{srv.RESTHandler()})
		src, err := xdsclient.NewSource(t.Context(), xdsclient.Config{
			Node: &corev3.Node{Id: "me"}, PerType: true, ResourceTimeout: tr.Patience(),
			Servers: []xdsclient.Server{{Name: "poll", Transport: tr}},
			Validators: map[string][]xdsclient.ResponseValidator{xds.ClusterType: {func(_ string, list []xdsclient.Candidate) error {
				for _, c := range list {
					if m, ok := c.Value.(*clusterv3.Cluster); ok && m.GetAltStatName() == "bad" {
						return fmt.Errorf("%s is bad", c.Name)
					}
				}
				return nil
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		xdsclient.Watch(src, xdsclient.Clusters(), "a", xdsclient.Funcs[*clusterv3.Cluster]{
			Change: func(u xdsclient.Update[*clusterv3.Cluster]) { said = append(said, u.Name+" "+u.Value.GetAltStatName()) },
			Error:  func(name string, _ error) { said = append(said, name+" missing") },
		})
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(said, want) {
				t.Errorf("the watcher was told %v, want %v", said, want)
			}
			said = nil
		}
		time.Sleep(time.Second)
		expect("a first")
		set("second", "a", "b")
		time.Sleep(2 * delay)
		expect("a second")
		state := func() (string, uint64) {
			for _, c := range srv.Clients() {
				if len(c.Types) > 0 {
					return c.Types[0].State, c.Types[0].Nacks
				}
			}
			return "", 0
		}
		time.Sleep(2 * delay)
		if got, _ := state(); got != xdsserver.Synced {
			t.Errorf("the server takes the client for %s", got)
		}
		set("bad", "a", "b")
		time.Sleep(10 * delay)
		expect()
		if got, nacks := state(); got != xdsserver.Rejected || nacks != 1 {
			t.Errorf("the server takes the client for %s, %d rejections", got, nacks)
		}
		set("good", "a", "b")
		time.Sleep(2 * delay)
		expect("a good")
		set("good", "b")
		time.Sleep(2 * delay)
		expect("a missing")
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	})
}
