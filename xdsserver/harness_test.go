package xdsserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.uber.org/goleak"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	adsSotw  = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	adsDelta = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	cdsSotw  = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters"
	cdsDelta = "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters"
	cdsFetch = "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters"
	edsFetch = "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints"
)

// harness is a server on an in-memory listener, mostly inside a synctest
// bubble.
type harness struct {
	t   *testing.T
	srv *xdsserver.Server
	gs  *grpc.Server
	lis *bufconn.Listener
	ctx context.Context
	cc  *grpc.ClientConn
}

// bubble runs a test against a server in virtual time.
func bubble(t *testing.T, opts []xdsserver.Option, test func(h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		serving(t, opts, test)
		synctest.Wait()
	})
}

// serving runs a test against a server in real time, or in the bubble it is in.
func serving(t *testing.T, opts []xdsserver.Option, test func(h *harness)) {
	t.Helper()
	servingWith(t, opts, nil, func(*harness) {}, test)
}

// servingWith has further options for gRPC and registers further services.
func servingWith(t *testing.T, opts []xdsserver.Option, grpcOpts []grpc.ServerOption, register, test func(h *harness)) {
	t.Helper()
	srv, err := xdsserver.New(opts...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h := &harness{t: t, srv: srv, lis: bufconn.Listen(1 << 20), ctx: ctx}
	h.gs = grpc.NewServer(append(srv.GRPCOptions(), grpcOpts...)...)
	srv.Register(h.gs)
	register(h)
	served := make(chan error, 1)
	go func() { served <- h.gs.Serve(h.lis) }()
	defer func() {
		cancel()
		if h.cc != nil {
			_ = h.cc.Close()
		}
		h.gs.Stop()
		if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	}()
	test(h)
}

func (h *harness) dial(opts ...grpc.DialOption) *grpc.ClientConn {
	h.t.Helper()
	opts = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64 << 20)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return h.lis.DialContext(ctx) }),
	}, opts...)
	cc, err := grpc.NewClient("passthrough:///mem", opts...)
	if err != nil {
		h.t.Fatal(err)
	}
	return cc
}

// conn is the connection that the harness's clients share.
func (h *harness) conn() *grpc.ClientConn {
	h.t.Helper()
	if h.cc == nil {
		h.cc = h.dial()
	}
	return h.cc
}

func (h *harness) apply(b snapshot.Batch) {
	h.t.Helper()
	if err := h.srv.Apply(b); err != nil {
		h.t.Fatal(err)
	}
}

// set applies resources to the default group.
func (h *harness) set(rs ...*xds.Resource) {
	h.t.Helper()
	h.setIn(xdsserver.DefaultGroup, rs...)
}

func (h *harness) setIn(group string, rs ...*xds.Resource) {
	h.t.Helper()
	h.apply(snapshot.Batch{Groups: map[string]snapshot.Changes{group: {Set: rs}}})
}

func res(typeURL, name, version string, refs ...xds.Key) *xds.Resource {
	var list []xds.Reference
	for _, k := range refs {
		list = append(list, xds.Reference{Key: k})
	}
	return xds.NewResource(typeURL, name, nil, xds.WithVersion(version), xds.WithReferences(list))
}

// client is a scripted client on one stream.
type client[Req, Res any] struct {
	t      *testing.T
	st     *grpc.GenericClientStream[Req, Res]
	in     chan *Res
	err    chan error
	cancel context.CancelFunc
}

func open[Req, Res any](h *harness, cc *grpc.ClientConn, path string) *client[Req, Res] {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.ctx)
	cs, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path)
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	c := &client[Req, Res]{
		t: h.t, st: &grpc.GenericClientStream[Req, Res]{ClientStream: cs},
		in: make(chan *Res, 5000), err: make(chan error, 1), cancel: cancel,
	}
	go func() {
		for {
			r, err := c.st.Recv()
			if err != nil {
				c.err <- err
				return
			}
			c.in <- r
		}
	}()
	return c
}

// send sends a request. That the stream has ended is for the next receive to tell,
// with the reason.
func (c *client[Req, Res]) send(r *Req) {
	c.t.Helper()
	if err := c.st.Send(r); err != nil && !errors.Is(err, io.EOF) {
		c.t.Fatal(err)
	}
}

// got returns the next response, or nil when the bubble is idle without one.
func (c *client[Req, Res]) got() *Res {
	synctest.Wait()
	select {
	case r := <-c.in:
		return r
	default:
		return nil
	}
}

// must returns the next response.
func (c *client[Req, Res]) must() *Res {
	c.t.Helper()
	r := c.got()
	if r == nil {
		c.t.Fatalf("no response; stream ended: %v", c.ended())
	}
	return r
}

// silent fails the test if there is a response.
func (c *client[Req, Res]) silent(when string) {
	c.t.Helper()
	if r := c.got(); r != nil {
		c.t.Fatalf("%s: got %v", when, r)
	}
}

func (c *client[Req, Res]) ended() error {
	synctest.Wait()
	select {
	case err := <-c.err:
		return err
	default:
		return nil
	}
}

// endsWith checks that the stream has ended with a status.
func (c *client[Req, Res]) endsWith(want codes.Code) {
	c.t.Helper()
	if err := c.ended(); err == nil || status.Code(err) != want {
		c.t.Errorf("the stream ended with %v, want %v", err, want)
	}
}

// sotwClient is a scripted SotW client.
type sotwClient struct {
	*client[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]
}

func (h *harness) sotw() sotwClient { h.t.Helper(); return h.sotwOn(adsSotw) }

func (h *harness) sotwOn(path string) sotwClient {
	h.t.Helper()
	return sotwClient{open[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse](h, h.conn(), path)}
}

func (c sotwClient) ack(r *discoveryv3.DiscoveryResponse, names ...string) {
	c.t.Helper()
	c.send(&discoveryv3.DiscoveryRequest{TypeUrl: r.GetTypeUrl(), VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce(), ResourceNames: names})
}

func (c sotwClient) nack(r *discoveryv3.DiscoveryResponse, msg string, names ...string) {
	c.t.Helper()
	c.send(&discoveryv3.DiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ResourceNames: names,
		ErrorDetail: &statuspb.Status{Code: 3, Message: msg},
	})
}

// subscribe sends the first request for a type.
func (c sotwClient) subscribe(n *corev3.Node, typeURL string, names ...string) {
	c.t.Helper()
	c.send(&discoveryv3.DiscoveryRequest{Node: n, TypeUrl: typeURL, ResourceNames: names})
}

// deltaClient is a scripted delta client.
type deltaClient struct {
	*client[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
}

func (h *harness) delta() deltaClient { h.t.Helper(); return h.deltaOn(adsDelta) }

func (h *harness) deltaOn(path string) deltaClient {
	h.t.Helper()
	return deltaClient{open[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse](h, h.conn(), path)}
}

func (c deltaClient) ack(r *discoveryv3.DeltaDiscoveryResponse) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

func (c deltaClient) nack(r *discoveryv3.DeltaDiscoveryResponse, msg string) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{
		TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Code: 3, Message: msg},
	})
}

func (c deltaClient) subscribe(n *corev3.Node, typeURL string, names ...string) {
	c.t.Helper()
	c.send(&discoveryv3.DeltaDiscoveryRequest{Node: n, TypeUrl: typeURL, ResourceNamesSubscribe: names})
}

func node(id string) *corev3.Node { return &corev3.Node{Id: id, Cluster: "test"} }

func byCluster(n *xds.Node) string { return n.Cluster }
