//go:build interop

package living

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/xds"
)

// fake is a server in the place of the real one that does not behave.
type fake struct {
	name  string
	serve func(f *faker, l net.Listener) // until the listener is closed
}

// faker is a fake at work.
type faker struct {
	held map[xds.Key]proto.Message // what there is in truth
	seen atomic.Int64              // connections or streams that came
	quit chan struct{}
	work sync.WaitGroup
}

// run has a fake listen at a port until it has been found, and a while longer.
func (k fake) run(t testing.TB, port int, held map[xds.Key]proto.Message) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		t.Fatal(err)
	}
	f := &faker{held: held, quit: make(chan struct{})}
	f.work.Go(func() { k.serve(f, l) })
	for end := time.Now().Add(20 * time.Second); f.seen.Load() == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s: nobody has come", k.name)
			break
		}
	}
	time.Sleep(250 * time.Millisecond)
	close(f.quit)
	_ = l.Close()
	f.work.Wait()
}

// raw is a fake that does something to each connection.
func raw(name string, do func(net.Conn)) fake {
	return fake{name, func(f *faker, l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.seen.Add(1)
			f.work.Go(func() {
				defer c.Close()
				do(c)
				<-f.quit
			})
		}
	}}
}

// answering is a fake that speaks HTTP/2 but not quite gRPC.
func answering(name string, do http.HandlerFunc) fake {
	return fake{name, func(f *faker, l net.Listener) {
		var p http.Protocols
		p.SetUnencryptedHTTP2(true)
		s := &http.Server{Protocols: &p, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.seen.Add(1)
			do(w, r)
		})}
		f.work.Go(func() {
			<-f.quit
			_ = s.Close()
		})
		_ = s.Serve(l)
	}}
}

// streaming is a fake that speaks gRPC. It is asked for each request, of either
// wire, what it answers.
func streaming(name string, answer func(f *faker, method string, r *request) []proto.Message) fake {
	return failing(name, func(f *faker, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		for {
			r := &request{delta: strings.Contains(method, "Delta")}
			m := r.message()
			if err := s.RecvMsg(m); err != nil {
				return nil //nolint:nilerr // the client has gone
			}
			r.read(m)
			for _, a := range answer(f, method, r) {
				if err := s.SendMsg(a); err != nil {
					return nil //nolint:nilerr // as above
				}
			}
		}
	})
}

// failing is a fake that speaks gRPC and treats each stream.
func failing(name string, do func(f *faker, s grpc.ServerStream) error) fake {
	return fake{name, func(f *faker, l net.Listener) {
		s := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			f.seen.Add(1)
			return do(f, stream)
		}))
		f.work.Go(func() {
			<-f.quit
			s.Stop()
		})
		_ = s.Serve(l)
	}}
}

// request is one of either wire.
type request struct {
	delta   bool
	typeURL string
	nonce   string // that it answers
	names   []string
}

func (r *request) message() proto.Message {
	if r.delta {
		return &discoveryv3.DeltaDiscoveryRequest{}
	}
	return &discoveryv3.DiscoveryRequest{}
}

func (r *request) read(m proto.Message) {
	switch m := m.(type) {
	case *discoveryv3.DeltaDiscoveryRequest:
		r.typeURL, r.nonce, r.names = m.GetTypeUrl(), m.GetResponseNonce(), m.GetResourceNamesSubscribe()
	case *discoveryv3.DiscoveryRequest:
		r.typeURL, r.nonce, r.names = m.GetTypeUrl(), m.GetResponseNonce(), m.GetResourceNames()
	}
}

// named is a resource with the name that a delta response calls it.
type named struct {
	name string
	body *anypb.Any
}

// response is an answer of the request's wire.
func (r *request) response(typeURL, nonce string, list []named, removed ...string) proto.Message {
	if !r.delta {
		m := &discoveryv3.DiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, VersionInfo: nonce}
		for _, n := range list {
			m.Resources = append(m.Resources, n.body)
		}
		return m
	}
	m := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce, SystemVersionInfo: nonce, RemovedResources: removed}
	for _, n := range list {
		m.Resources = append(m.Resources, &discoveryv3.Resource{Name: n.name, Version: nonce, Resource: n.body})
	}
	return m
}

// true are all resources of a type, as they should be.
func (f *faker) truth(typeURL string) []named {
	var out []named
	for _, k := range sortedKeys(f.held) {
		if k.Type == typeURL {
			out = append(out, named{k.Name, packed(f.held[k])})
		}
	}
	return out
}

// first is whether a request begins a subscription, rather than answer.
func (r *request) first() bool { return r.nonce == "" }

func one(m proto.Message) []proto.Message { return []proto.Message{m} }

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

// breakOne makes the bytes of one resource end too early.
func breakOne(list []named) []named {
	if len(list) > 0 {
		b := list[len(list)/2].body
		b.Value = b.GetValue()[:len(b.GetValue())-3]
	}
	return list
}

func rawFakes() []fake {
	prefix := func(w http.ResponseWriter, b []byte) {
		w.Header().Set("Content-Type", "application/grpc")
		_, _ = w.Write(b)
		_ = http.NewResponseController(w).Flush()
	}
	return []fake{
		raw("says nothing", func(net.Conn) {}),
		raw("hangs up", func(c net.Conn) { _ = c.Close() }),
		raw("makes noise", func(c net.Conn) { _, _ = c.Write(noise(10_000)) }),
		raw("answers in HTTP/1", func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n")
		}),
		raw("says hello and nothing more", func(c net.Conn) { _, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) }),
		answering("answers with a page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }),
		answering("answers with half a message", func(w http.ResponseWriter, _ *http.Request) {
			prefix(w, append([]byte{0, 0, 0, 10, 0}, noise(100)...))
			panic(http.ErrAbortHandler)
		}),
		answering("announces too much", func(w http.ResponseWriter, _ *http.Request) { prefix(w, bytes.Repeat([]byte{0xff}, 50)) }),
		answering("sends what is no message", func(w http.ResponseWriter, _ *http.Request) {
			prefix(w, append([]byte{0, 0, 0, 0, 100}, noise(100)...))
		}),
		failing("gives up", func(*faker, grpc.ServerStream) error { return status.Error(codes.Unavailable, "no") }),
		failing("knows nothing", func(*faker, grpc.ServerStream) error { return status.Error(codes.Unimplemented, "no") }),
		failing("is exhausted", func(*faker, grpc.ServerStream) error { return status.Error(codes.ResourceExhausted, "no") }),
		failing("is out of order", func(*faker, grpc.ServerStream) error { return errors.New("no") }),
		failing("ends well", func(*faker, grpc.ServerStream) error { return nil }),
	}
}

func streamFakes() []fake {
	n := 0
	next := func() string { n++; return fmt.Sprint("fake", n) }
	return []fake{
		streaming("never answers", func(*faker, string, *request) []proto.Message { return nil }),
		streaming("sends garbage", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() {
				return nil
			}
			list := f.truth(r.typeURL)
			for _, n := range list {
				n.body.Value = noise(50)
			}
			return one(r.response(r.typeURL, next(), list))
		}),
		streaming("breaks one resource", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() {
				return nil
			}
			return one(r.response(r.typeURL, next(), breakOne(f.truth(r.typeURL))))
		}),
		streaming("mistakes types", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() {
				return nil
			}
			other := map[string]string{xds.ClusterType: xds.ListenerType, xds.ListenerType: xds.ClusterType}[r.typeURL]
			return []proto.Message{r.response(r.typeURL, next(), f.truth(xds.SecretType)), r.response("type.googleapis.com/nothing", next(), f.truth(other))}
		}),
		streaming("has one nonce, and none", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() {
				return nil
			}
			list := f.truth(r.typeURL)
			return []proto.Message{r.response(r.typeURL, "same", list), r.response(r.typeURL, "same", list), r.response(r.typeURL, "", list)}
		}),
		streaming("answers in part", func(f *faker, _ string, r *request) []proto.Message {
			list := f.truth(r.typeURL)
			if !r.first() || len(r.names) == 0 || r.names[0] == "*" || len(list) == 0 {
				return nil
			}
			return one(r.response(r.typeURL, next(), list[:1]))
		}),
		streaming("sends what nobody wants", func(_ *faker, _ string, r *request) []proto.Message {
			la := &endpointv3.ClusterLoadAssignment{ClusterName: "nobody"}
			return one(r.response(xds.EndpointType, next(), []named{{"nobody", packed(la)}}, "nothing", ""))
		}),
		streaming("calls things by other names", func(f *faker, _ string, r *request) []proto.Message {
			list := f.truth(r.typeURL)
			if !r.first() || !r.delta || len(list) < 2 {
				return nil
			}
			list[0].name, list[1].name = list[1].name, list[0].name
			return one(r.response(r.typeURL, next(), append(list[:2:2], named{"empty", nil})))
		}),
		streaming("gives everything another name", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() || r.typeURL != xds.ClusterType && r.typeURL != xds.ListenerType {
				return nil
			}
			before, after := f.truth(r.typeURL), f.truth(r.typeURL)
			var gone []string
			for i := range after {
				gone = append(gone, before[i].name)
				after[i].name += " by another name"
			}
			return []proto.Message{r.response(r.typeURL, next(), before), r.response(r.typeURL, next(), after, gone...)}
		}),
		streaming("removes what it sends", func(f *faker, _ string, r *request) []proto.Message {
			list := f.truth(r.typeURL)
			if !r.first() || len(list) == 0 {
				return nil
			}
			return one(r.response(r.typeURL, next(), list, list[0].name))
		}),
		streaming("breaks one resource and mends it", func(f *faker, _ string, r *request) []proto.Message {
			if !r.first() {
				return nil
			}
			return []proto.Message{r.response(r.typeURL, next(), breakOne(f.truth(r.typeURL))), r.response(r.typeURL, next(), f.truth(r.typeURL))}
		}),
	}
}

// A server that does not behave does no harm: the proxy goes on with what it
// has, and takes what comes when the server is well again.
func TestBadServers(t *testing.T) {
	t.Parallel()
	for _, v := range variants()[:2] {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s := setScene(t, v)
			s.restarts = true
			s.begin()
			all := append(rawFakes(), streamFakes()...)
			s.w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, k := range all {
				s.server.Kill()
				t.Logf("the server that %s", k.name)
				k.run(t, s.server.xds, s.w.held)
				s.server.start(t)
				s.change()
				t.Logf("%s: all is well %v later", k.name, s.proxy.converge(t, s.w).Round(time.Millisecond))
			}
			s.finish(1)
		})
	}
}
