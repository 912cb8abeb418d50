package xdsclient_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// fake is a scripted server: tests say what it answers, in virtual time.
type fake struct {
	t *testing.T

	mu      sync.Mutex
	down    error // why streams cannot be opened
	opens   []time.Time
	streams []*fakeStream
	closed  int
}

func (f *fake) Open(ctx context.Context, o xdsclient.Opening) (xdsclient.Stream, error) {
	f.mu.Lock()
	f.opens = append(f.opens, time.Now())
	down := f.down
	f.mu.Unlock()
	if down != nil {
		return nil, down
	}
	time.Sleep(connecting)
	f.mu.Lock()
	defer f.mu.Unlock()
	st := &fakeStream{t: f.t, ctx: ctx, opening: o, requests: make(chan *client.Request, 100_000), responses: make(chan reply)}
	f.streams = append(f.streams, st)
	return st, nil
}

// connecting is how long it takes, so that what a test does in a row is done
// when the stream is open.
const connecting = time.Millisecond

func (f *fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed++
	return nil
}

// fail makes streams fail to open; nil lets them.
func (f *fake) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = err
}

func (f *fake) attempts() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]time.Time(nil), f.opens...)
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}

// stream is the newest stream, which must be the nth, counted from 1.
func (f *fake) stream(n int) *fakeStream {
	f.t.Helper()
	time.Sleep(2 * connecting)
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.streams) != n {
		f.t.Fatalf("there are %d streams, want %d", len(f.streams), n)
	}
	return f.streams[n-1]
}

// again lets virtual time pass until there is an nth stream.
func (f *fake) again(n int) *fakeStream {
	f.t.Helper()
	for range 1000 {
		if synctest.Wait(); f.count() >= n {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return f.stream(n)
}

type reply struct {
	r   *client.Response
	err error
}

type fakeStream struct {
	t         *testing.T
	ctx       context.Context
	opening   xdsclient.Opening
	requests  chan *client.Request
	responses chan reply
}

func (st *fakeStream) Send(r *client.Request) error {
	select {
	case st.requests <- r:
		return nil
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
}

func (st *fakeStream) Recv() (*client.Response, error) {
	select {
	case r := <-st.responses:
		return r.r, r.err
	case <-st.ctx.Done():
		return nil, st.ctx.Err()
	}
}

// answer delivers a response and waits until it is worked off.
func (st *fakeStream) answer(r *client.Response) {
	st.t.Helper()
	select {
	case st.responses <- reply{r: r}:
	case <-time.After(time.Minute):
		st.t.Fatal("the client does not read")
	}
	synctest.Wait()
}

// end ends the stream.
func (st *fakeStream) end(err error) {
	st.t.Helper()
	select {
	case st.responses <- reply{err: err}:
	case <-time.After(time.Minute):
		st.t.Fatal("the client does not read")
	}
	synctest.Wait()
}

// got renders the requests sent since it was called last.
func (st *fakeStream) got() []string {
	synctest.Wait()
	var lines []string
	for {
		select {
		case r := <-st.requests:
			lines = append(lines, render(r))
		default:
			return lines
		}
	}
}

func (st *fakeStream) expect(want ...string) {
	st.t.Helper()
	if diff := cmp.Diff(want, st.got()); diff != "" {
		st.t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// open reports whether the client still holds the stream.
func (st *fakeStream) open() bool { synctest.Wait(); return st.ctx.Err() == nil }

func render(r *client.Request) string {
	var b strings.Builder
	t, _ := xds.LookupType(r.TypeURL)
	b.WriteString(t.API)
	if t.API == "" {
		b.WriteString(r.TypeURL)
	}
	for _, p := range []struct{ k, v string }{{"v", r.Version}, {"n", r.Nonce}, {"error", r.Error}} {
		if p.v != "" {
			fmt.Fprintf(&b, " %s=%s", p.k, p.v)
		}
	}
	for _, p := range []struct {
		k string
		v []string
	}{{"", r.Names}, {"+", r.Subscribe}, {"-", r.Unsubscribe}} {
		if len(p.v) > 0 {
			fmt.Fprintf(&b, " %s%v", p.k, p.v)
		}
	}
	if len(r.Held) > 0 {
		fmt.Fprintf(&b, " held=%v", r.Held)
	}
	if r.WithNode {
		b.WriteString(" node")
	}
	return b.String()
}

func (r *record) expect(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.take()); diff != "" {
		t.Errorf("callbacks (-want +got):\n%s", diff)
	}
}

// cds is a response with clusters, written "name=alt"; "!name" is one that
// cannot be decoded.
func cds(version, nonce string, items ...string) *client.Response {
	r := &client.Response{TypeURL: xds.ClusterType, Version: version, Nonce: nonce}
	for _, item := range items {
		r.Resources = append(r.Resources, rawCluster(item))
	}
	return r
}

// eds is the same with endpoint assignments.
func eds(version, nonce string, items ...string) *client.Response {
	r := cds(version, nonce, items...)
	r.TypeURL = xds.EndpointType
	for i := range r.Resources {
		r.Resources[i].TypeURL = xds.EndpointType
	}
	return r
}

func rawCluster(item string) client.Raw {
	raw := client.Raw{TypeURL: xds.ClusterType, HasBody: true}
	name, alt := item, ""
	if i := strings.LastIndexByte(item, '='); i >= 0 {
		name, alt = item[:i], item[i+1:]
	}
	if bad, ok := strings.CutPrefix(name, "!"); ok {
		raw.Body = append([]byte{1<<3 | 2, byte(len(bad))}, bad...)
		raw.Body = append(raw.Body, 4<<3|2, 1, 0xff) // a wrong nested message
		return raw
	}
	raw.Body, _ = proto.Marshal(&clusterv3.Cluster{Name: name, AltStatName: alt})
	return raw
}

// plain is EDS decoded as what a cluster shows, so that tests can use one kind
// of content for all types.
func plain(typeURL string) xdsclient.Type[string] {
	t, _ := xds.LookupType(typeURL)
	return xdsclient.Type[string]{Type: t, Decode: func(_ string, body []byte) (string, error) {
		var c clusterv3.Cluster
		if err := proto.Unmarshal(body, &c); err != nil {
			return "", errors.New("not a message")
		}
		if c.GetAltStatName() == "bad" {
			return "", errors.New("alt_stat_name: must not be bad")
		}
		return c.GetAltStatName(), nil
	}}
}

func cdsType() xdsclient.Type[string] { return plain(xds.ClusterType) }
func edsType() xdsclient.Type[string] { return plain(xds.EndpointType) }

func plainly(r *record) xdsclient.Funcs[string] {
	return watching(r, func(s string) string { return s })
}

// scene is a source with scripted servers in a synctest bubble.
type scene struct {
	t *testing.T
	s *xdsclient.Source
	r *record
	f []*fake
}

// bubble runs a test in virtual time. Servers are "a", "b", ….
func bubble(t *testing.T, servers int, c xdsclient.Config, test func(sc *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sc := &scene{t: t, r: newRecord()}
		var policy xdsclient.Policy
		if len(c.Servers) > 0 {
			policy, c.Servers = c.Servers[0].Policy, nil
		}
		for i := range servers {
			f := &fake{t: t}
			sc.f = append(sc.f, f)
			c.Servers = append(c.Servers, xdsclient.Server{Name: string(rune('a' + i)), Transport: f, Policy: policy})
		}
		sc.s = source(t, c)
		test(sc)
	})
}

func (sc *scene) watch(t xdsclient.Type[string], name string) (cancel func()) {
	return xdsclient.Watch(sc.s, t, name, plainly(sc.r))
}

func with(p xdsclient.Policy) xdsclient.Config {
	return xdsclient.Config{Servers: []xdsclient.Server{{Policy: p}}}
}

var errDown = io.ErrUnexpectedEOF

// named gives a response's resources the names and versions that delta has.
func named(r *client.Response) *client.Response {
	for i := range r.Resources {
		var c clusterv3.Cluster
		_ = proto.Unmarshal(r.Resources[i].Body, &c)
		r.Resources[i].Name, r.Resources[i].Version = c.GetName(), c.GetAltStatName()
	}
	return r
}
