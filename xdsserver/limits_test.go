package xdsserver_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// Partly proves XS-92: streams, their rate and the requests of streams and nodes
// are limited. TestGateCoversEveryMethod has the gate.
func TestLimitsOnStreams(t *testing.T) {
	t.Run("open streams", func(t *testing.T) {
		bubble(t, []xdsserver.Option{xdsserver.WithLimits(xdsserver.Limits{MaxStreams: 2, RequestsPerSecond: 100})}, func(h *harness) {
			h.set(res(xds.ClusterType, "c", "1"))
			a, b := h.sotw(), h.sotw()
			synctest.Wait()
			h.sotw().endsWith(codes.ResourceExhausted) // those that have said nothing count
			for _, x := range []sotwClient{a, b} {
				x.subscribe(node("n"), xds.ClusterType)
				x.must()
			}
			h.delta().endsWith(codes.ResourceExhausted)
			if held := h.srv.Held(); held.Streams != 2 || held.Nodes != 1 || h.srv.Stats().StreamsRefused != 2 {
				t.Errorf("after the refusals: %+v", held)
			}
			a.cancel()
			_ = a.ended()
			d := h.sotw()
			d.subscribe(node("d"), xds.ClusterType)
			d.must()
		})
	})
	t.Run("new streams", func(t *testing.T) {
		limits := xdsserver.Limits{StreamsPerSecond: 1, StreamBurst: 3}
		bubble(t, []xdsserver.Option{xdsserver.WithLimits(limits)}, func(h *harness) {
			h.set(res(xds.ClusterType, "c", "1"))
			var all []sotwClient
			for i := range 5 {
				c := h.sotw()
				if i < 4 { // the fifth is refused before it can say anything
					c.subscribe(node("n"), xds.ClusterType)
				}
				synctest.Wait()
				all = append(all, c)
			}
			time.Sleep(1500 * time.Millisecond) // the fourth waits for its turn
			for i, c := range all {
				if i < 4 {
					c.must()
				} else {
					c.endsWith(codes.Unavailable)
				}
			}
		})
	})
	for _, tt := range []struct {
		name    string
		streams int
		want    time.Duration // at 1 request a second, burst 1; ten times that for the node
	}{{"requests of a stream", 1, 29 * time.Second}, {"requests of a node", 20, 57 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			limits := xdsserver.Limits{RequestsPerSecond: 1, RequestBurst: 1}
			bubble(t, []xdsserver.Option{xdsserver.WithLimits(limits)}, func(h *harness) {
				h.set(res(xds.ClusterType, "c", "1"))
				began := time.Now()
				for range tt.streams {
					d := h.delta()
					d.subscribe(node("n"), xds.ClusterType)
					for range 29 {
						d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.ClusterType})
					}
				}
				for requests(h) < uint64(30*tt.streams) && time.Since(began) < time.Hour {
					time.Sleep(time.Second / 4)
					synctest.Wait()
				}
				if took := time.Since(began); took < tt.want-time.Second || took > tt.want+time.Second {
					t.Errorf("%d requests took %v, want about %v", 30*tt.streams, took, tt.want)
				}
			})
		})
	}
}

func requests(h *harness) (n uint64) {
	for _, s := range h.srv.Stats().Types {
		n += s.Requests
	}
	return n
}

// Proves XS-91, with TestConnectionsGrowOld: a client may ping every 10 s for as long as it likes. The
// second case shows that the test would see a GOAWAY.
func TestClientsMayPing(t *testing.T) {
	for _, tt := range []struct {
		min   time.Duration
		conns int
	}{{0, 1}, {time.Minute, 2}} {
		bubble(t, []xdsserver.Option{xdsserver.WithKeepalive(xdsserver.Keepalive{MinPing: tt.min, Ping: time.Hour})}, func(h *harness) {
			conns := 0
			cc := h.dial(grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithIdleTimeout(0),
				grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					conns++
					return h.lis.DialContext(ctx)
				}))
			defer cc.Close()
			h.set(res(xds.ClusterType, "c", "1"))
			s := sotwClient{open[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse](h, cc, adsSotw)}
			s.subscribe(node("s"), xds.ClusterType)
			s.ack(s.must())
			time.Sleep(2 * time.Minute)
			err := s.ended()
			if (err == nil) != (tt.conns == 1) {
				t.Errorf("pings at least %v apart: the stream ended with %v", tt.min, err)
			}
			cc.Connect()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if (conns == 1) != (tt.conns == 1) {
				t.Errorf("pings at least %v apart: %d connections", tt.min, conns)
			}
		})
	}
}

// A connection that has reached its greatest age is drained, and its streams
// end after the grace period.
func TestConnectionsGrowOld(t *testing.T) {
	life := xdsserver.Keepalive{MaxAge: time.Minute, MaxAgeGrace: 10 * time.Second}
	bubble(t, []xdsserver.Option{xdsserver.WithKeepalive(life)}, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType)
		s.ack(s.must())
		time.Sleep(50 * time.Second) // up to 10 % less than a minute
		if err := s.ended(); err != nil {
			t.Fatalf("ended early: %v", err)
		}
		time.Sleep(30 * time.Second)
		s.endsWith(codes.Unavailable)
		next := h.sotw()
		next.subscribe(node("s"), xds.ClusterType)
		next.must()
	})
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Name() string { return proto.Name }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, errors.New("not bytes")
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

// Proves XS-93: requests that cannot be read, or are too large, end their own
// stream and no other of the connection.
func TestMalformedRequestsEndTheirStream(t *testing.T) {
	limits := xdsserver.WithLimits(xdsserver.Limits{MaxNames: 3, MaxRequestBytes: 1000})
	bubble(t, []xdsserver.Option{limits}, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.ClusterType)
		d.subscribe(node("d"), xds.ClusterType)
		s.ack(s.must())
		d.ack(d.must())
		for name, c := range map[string]struct {
			data string
			want codes.Code
		}{
			"not a message":     {"\xff\xff\xff", codes.InvalidArgument},
			"cut short":         {"\x22\x7fabc", codes.InvalidArgument},
			"group never ended": {"\x0b", codes.InvalidArgument},
			"node is no node":   {"\x12\x01\xff\x0a\x01\xff", codes.InvalidArgument},
			"name is not UTF-8": {"\x1a\x01\xff\x22\x01\xff", codes.InvalidArgument},
			"no type":           {"", codes.InvalidArgument},
			"too long":          {"\x22" + "\xd0\x0f" + string(make([]byte, 2000)), codes.ResourceExhausted},
		} {
			for _, path := range []string{adsSotw, adsDelta} {
				st, err := h.conn().NewStream(h.ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path, grpc.ForceCodecV2(rawCodec{}))
				if err != nil {
					t.Fatal(err)
				}
				if err := st.SendMsg([]byte(c.data)); err != nil {
					t.Fatal(err)
				}
				checkCode(t, name+" on "+path, st.RecvMsg(nil), c.want)
			}
		}
		many, manyDelta := h.sotw(), h.delta()
		many.subscribe(node("m"), xds.EndpointType, "a", "b", "c", "d")
		manyDelta.subscribe(node("m"), xds.EndpointType, "a", "b", "c", "d")
		many.endsWith(codes.ResourceExhausted)
		manyDelta.endsWith(codes.ResourceExhausted)
		types := h.delta()
		for i := range 65 {
			types.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: fmt.Sprint("t", i)})
		}
		types.endsWith(codes.ResourceExhausted)
		h.set(res(xds.ClusterType, "c", "2"))
		s.must()
		d.must()
		for _, st := range h.srv.Stats().Types {
			if want := map[string]int64{xds.ClusterType: 1}[st.TypeURL]; st.Subscriptions != want {
				t.Errorf("%s %s: %d subscriptions, want %d", st.TypeURL, st.Variant, st.Subscriptions, want)
			}
		}
	})
}

func checkCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// Partly proves XS-94: every counter counts what it says, by type and variant;
// a subscription that begins anew is still one.
func TestStats(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithGate(time.Second)}, func(h *harness) {
		cluster := xds.Key{Type: xds.ClusterType, Name: "c"}
		h.set(res(xds.ClusterType, "c", "1"), res(xds.RouteType, "r", "1", cluster))
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.ClusterType)
		first := s.must()
		time.Sleep(200 * time.Millisecond)
		s.ack(first)
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.ClusterType}) // begins anew
		second := s.must()
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.ClusterType, ResponseNonce: first.GetNonce()})
		s.nack(second, "no")
		d.subscribe(node("d"), xds.ClusterType)
		d.ack(d.must())
		d.subscribe(nil, "unheard-of", "x")
		d.ack(d.must())
		d.subscribe(nil, xds.RouteType, "r")
		d.ack(d.must())
		d.silent("after the last ACK")
		h.set(res(xds.ClusterType, "d", "1"), res(xds.RouteType, "r", "2", xds.Key{Type: xds.ClusterType, Name: "d"}))
		d.must()
		d.silent("while the clusters are not accepted")
		time.Sleep(2 * time.Second)
		d.must() // the route, although the clusters were not accepted
		st := h.srv.Stats()
		if st.StreamsOpened != 2 || len(st.Types) != 4 {
			t.Errorf("stats %+v", st)
		}
		push, answer := map[string][]uint64{}, map[string][]uint64{}
		for _, got := range st.Types {
			key := got.Variant + ":" + got.TypeURL
			push[key], answer[key] = got.Push.Counts, got.Answer.Counts
			got.Bytes, got.TypeURL, got.Variant = 0, "", ""
			got.Push, got.Answer = xdsserver.Histogram{}, xdsserver.Histogram{}
			want := map[string]xdsserver.TypeStats{
				"sotw:" + xds.ClusterType:  {Subscriptions: 1, Requests: 5, Responses: 3, Resources: 4, Acks: 1, Nacks: 1, Stale: 1},
				"delta:" + xds.ClusterType: {Subscriptions: 1, Requests: 2, Responses: 2, Resources: 2, Acks: 1},
				"delta:" + xds.RouteType:   {Subscriptions: 1, Requests: 2, Responses: 2, Resources: 2, Acks: 1, GateTimeouts: 1},
				"delta:":                   {Subscriptions: 1, Requests: 2, Responses: 1, Acks: 1},
			}[key]
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", key, d)
			}
		}
		if c := answer["sotw:"+xds.ClusterType]; c[bucket(200*time.Millisecond)] != 1 || sum(c) != 2 {
			t.Errorf("answer times of clusters %v", c)
		}
		if c := answer["delta:"+xds.RouteType]; sum(c) != 1 {
			t.Errorf("answer times of routes %v", c)
		}
		if c := push["delta:"+xds.RouteType]; c[bucket(time.Second)] != 1 || sum(c) != 1 {
			t.Errorf("push times of routes %v", c)
		}
		if c := push["delta:"+xds.ClusterType]; c[0] != 1 || sum(c) != 1 {
			t.Errorf("push times of clusters %v", c)
		}
		s.cancel()
		d.cancel()
		_, _ = s.ended(), d.ended()
		for _, got := range h.srv.Stats().Types {
			if got.Subscriptions != 0 {
				t.Errorf("after the streams' end: %+v", got)
			}
		}
	})
}

// Partly proves XS-94: that an encoding was shared is counted by type and variant.
func TestSharedEncodingsAreCounted(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		large := []*xds.Resource{res(xds.EndpointType, "e", "1")}
		for i := range 500 {
			large = append(large, res(xds.ClusterType, fmt.Sprint("c", i), "1"))
		}
		h.set(large...)
		for range 3 {
			d := h.delta()
			d.subscribe(node("d"), xds.ClusterType)
			d.must()
			d.subscribe(nil, xds.EndpointType, "e")
			d.must()
		}
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType)
		s.must()
		for _, got := range h.srv.Stats().Types {
			want := map[string][2]uint64{"delta:" + xds.ClusterType: {1, 2}, "sotw:" + xds.ClusterType: {1, 0}}[got.Variant+":"+got.TypeURL]
			if misses := [2]uint64{got.BodyMisses, got.BodyHits}; misses != want {
				t.Errorf("%s %s: misses and hits %v, want %v", got.Variant, got.TypeURL, misses, want)
			}
		}
	})
}

func bucket(d time.Duration) int {
	for i, b := range xdsserver.HistogramBounds() {
		if d <= b {
			return i
		}
	}
	return len(xdsserver.HistogramBounds())
}

func sum(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Shutdown ends the open streams one after another until about half its time
// is over, and lets nobody in.
func TestShutdownIsSpread(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		const n = 10
		var all []sotwClient
		for range n {
			c := h.sotw()
			c.subscribe(node("n"), xds.ClusterType)
			c.must()
			all = append(all, c)
		}
		ctx, cancel := context.WithTimeout(h.ctx, 20*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- h.srv.Shutdown(ctx) }()
		synctest.Wait()
		late := h.sotw()
		late.subscribe(node("late"), xds.ClusterType)
		late.endsWith(codes.Unavailable)
		for i, c := range all {
			c.endsWith(codes.Unavailable)
			if i+1 < n && all[i+1].ended() != nil {
				t.Errorf("streams %d and %d ended at once", i, i+1)
			}
			time.Sleep(time.Second)
		}
		if err := <-done; err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if held := h.srv.Held(); held.Streams != 0 {
			t.Errorf("after the shutdown: %+v", held)
		}
	})
	bubble(t, nil, func(h *harness) { // streams that end by themselves are not waited for
		h.set(res(xds.ClusterType, "c", "1"))
		for range 10 {
			c := h.delta()
			c.subscribe(node("n"), xds.ClusterType)
			c.must()
			defer c.cancel()
			time.AfterFunc(1500*time.Millisecond, c.cancel)
		}
		ctx, cancel := context.WithTimeout(h.ctx, 20*time.Second)
		defer cancel()
		began := time.Now()
		if err := h.srv.Shutdown(ctx); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("shutdown: %v, after %v", err, time.Since(began))
		}
	})
	bubble(t, nil, func(h *harness) { // without a deadline all end at once
		h.set(res(xds.ClusterType, "c", "1"))
		a, b := h.sotw(), h.delta()
		a.subscribe(node("a"), xds.ClusterType)
		b.subscribe(node("b"), xds.ClusterType)
		a.must()
		b.must()
		if err := h.srv.Shutdown(h.ctx); err != nil {
			t.Error(err)
		}
		a.endsWith(codes.Unavailable)
		b.endsWith(codes.Unavailable)
	})
}
