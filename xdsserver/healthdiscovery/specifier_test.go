package healthdiscovery_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
)

// answer is a provider's result that a test can change.
type answer struct {
	spec *healthv3.HealthCheckSpecifier
	err  error
}

// provide returns a provider that answers what the pointer holds.
func provide(a *atomic.Pointer[answer]) healthdiscovery.Option {
	return healthdiscovery.WithProvider(func(context.Context, healthdiscovery.Checker) (*healthv3.HealthCheckSpecifier, error) {
		return a.Load().spec, a.Load().err
	})
}

// checking is a specifier for one endpoint of one cluster.
func checking(cluster, ip string) *healthv3.HealthCheckSpecifier {
	return &healthv3.HealthCheckSpecifier{ClusterHealthChecks: []*healthv3.ClusterHealthCheck{{
		ClusterName: cluster,
		HealthChecks: []*corev3.HealthCheck{{
			Timeout: durationpb.New(time.Second), Interval: durationpb.New(time.Second),
			HealthChecker: &corev3.HealthCheck_TcpHealthCheck_{TcpHealthCheck: &corev3.HealthCheck_TcpHealthCheck{}},
		}},
		LocalityEndpoints: []*healthv3.LocalityEndpoints{{
			Locality:  &corev3.Locality{Region: "r", Zone: "z"},
			Endpoints: []*endpointv3.Endpoint{health(ip, 0).Endpoint},
		}},
	}}}
}

func every(d time.Duration, s *healthv3.HealthCheckSpecifier) *healthv3.HealthCheckSpecifier {
	s.Interval = durationpb.New(d)
	return s
}

// Proves XL-14.
func TestSpecifierIsSentAndSentAgainOnChange(t *testing.T) {
	var a atomic.Pointer[answer]
	a.Store(&answer{spec: checking("web", "10.0.0.1")})
	inBubble(t, func(b *bench) {
		quiet := b.open()
		answered := make(chan struct{})
		go func() { defer close(answered); _, _ = quiet.Recv() }()
		one, first := b.join("one")
		two, _ := b.join("two")
		if d := cmp.Diff(every(time.Second, checking("web", "10.0.0.1")), first, protocmp.Transform()); d != "" {
			b.Errorf("first specifier (-want +got):\n%s", d)
		}
		if a.Load().spec.Interval != nil {
			b.Error("the provider's message was changed")
		}
		b.server.Refresh() // nothing has changed, so nothing is sent
		synctest.Wait()
		a.Store(&answer{spec: every(5*time.Second, checking("web", "10.0.0.2"))})
		b.server.Refresh()
		for _, c := range []*clientStream{one, two} {
			if d := cmp.Diff(a.Load().spec, c.Answer(), protocmp.Transform()); d != "" {
				b.Errorf("specifier after the change (-want +got):\n%s", d)
			}
			c.Leave()
		}
		synctest.Wait()
		select {
		case <-answered:
			b.Error("the server spoke before the HealthCheckRequest")
		default:
		}
		quiet.Leave()
		<-answered
	}, provide(&a))
}

// Partly proves XL-14.
func TestDefaultSpecifier(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, got := b.join("one")
		defer c.Leave()
		want := &healthv3.HealthCheckSpecifier{Interval: durationpb.New(time.Second)}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			b.Errorf("streamed (-want +got):\n%s", d)
		}
		got, err := b.client.FetchHealthCheck(b.Context(), hello("one"))
		if err != nil {
			b.Fatal(err)
		}
		if d := cmp.Diff(want, got, protocmp.Transform()); d != "" {
			b.Errorf("fetched (-want +got):\n%s", d)
		}
	})
}

func TestProviderSeesTheChecker(t *testing.T) {
	tcp, http := healthv3.Capability_TCP, healthv3.Capability_HTTP
	provider := func(_ context.Context, c healthdiscovery.Checker) (*healthv3.HealthCheckSpecifier, error) {
		name := c.Node.ID
		for _, p := range c.Protocols {
			name += " " + p.String()
		}
		return checking(name, "10.0.0.1"), nil
	}
	inBubble(t, func(b *bench) {
		c := b.open()
		defer c.Leave()
		c.Send(hello("one", tcp))
		if got := c.Answer().ClusterHealthChecks[0].ClusterName; got != "one TCP" {
			b.Errorf("told to check %q", got)
		}
		c.Send(hello("one", tcp, http))
		if got := c.Answer().ClusterHealthChecks[0].ClusterName; got != "one TCP HTTP" {
			b.Errorf("after the capability changed, told to check %q", got)
		}
		if got := b.server.ByNode("one")[0].Protocols; !cmp.Equal(got, []healthv3.Capability_Protocol{tcp, http}) {
			b.Errorf("protocols %v", got)
		}
		c.Send(hello("two"))
		_ = c.End(codes.InvalidArgument)
	}, healthdiscovery.WithProvider(provider))
}

func TestProviderFailures(t *testing.T) {
	for name, bad := range map[string]*answer{
		"error":             {err: errors.New("secret reason")},
		"zero interval":     {spec: every(0, checking("web", "10.0.0.1"))},
		"negative interval": {spec: every(-time.Second, checking("web", "10.0.0.1"))},
		"invalid interval":  {spec: &healthv3.HealthCheckSpecifier{Interval: &durationpb.Duration{Nanos: -2_000_000_000}}},
		"nameless cluster":  {spec: checking("", "10.0.0.1")},
	} {
		t.Run(name, func(t *testing.T) {
			var a atomic.Pointer[answer]
			a.Store(&answer{})
			inBubble(t, func(b *bench) {
				c, _ := b.join("one")
				defer c.Leave()
				a.Store(bad)
				b.server.Refresh()
				synctest.Wait()
				late := b.open()
				late.Send(hello("two"))
				if err := late.End(codes.Unavailable); strings.Contains(err.Error(), "secret") {
					b.Errorf("the client saw the reason: %v", err)
				}
				if _, err := b.client.FetchHealthCheck(b.Context(), hello("two")); status.Code(err) != codes.Unavailable {
					b.Errorf("fetch: %v", err)
				}
				a.Store(&answer{spec: checking("good", "10.0.0.1")})
				b.server.Refresh()
				if got := c.Answer(); len(got.ClusterHealthChecks) != 1 || got.ClusterHealthChecks[0].ClusterName != "good" {
					b.Errorf("the first stream did not outlast the failure: %v", got)
				}
			}, provide(&a))
		})
	}
}

// Partly proves XD-11.
func TestGateCoversStreamAndFetch(t *testing.T) {
	gate := func(_ context.Context, n *xds.Node) error {
		switch n.ID {
		case "bad":
			return errors.New("secret reason")
		case "later":
			return status.Error(codes.Unauthenticated, "no token")
		}
		return nil
	}
	asked := atomic.Int32{}
	provider := func(context.Context, healthdiscovery.Checker) (*healthv3.HealthCheckSpecifier, error) {
		asked.Add(1)
		return nil, nil
	}
	inBubble(t, func(b *bench) {
		for id, want := range map[string]codes.Code{"bad": codes.PermissionDenied, "later": codes.Unauthenticated} {
			c := b.open()
			c.Send(hello(id))
			m, err := c.Recv()
			if status.Code(err) != want {
				b.Errorf("node %s got %v, %v; want %v", id, m, err, want)
			}
			spec, err := b.client.FetchHealthCheck(b.Context(), hello(id))
			if status.Code(err) != want {
				b.Errorf("node %s fetched %v, %v; want %v", id, spec, err, want)
			}
		}
		if n := b.server.Nodes(); len(n) != 0 || asked.Load() != 0 {
			b.Errorf("denied nodes are remembered or provided for: %+v, %d", n, asked.Load())
		}
		c, _ := b.join("good")
		c.Leave()
	}, healthdiscovery.WithAllow(gate), healthdiscovery.WithProvider(provider))
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]healthdiscovery.Option{
		"negative limit":     healthdiscovery.WithLimits(healthdiscovery.Limits{Clusters: -1}),
		"negative retention": healthdiscovery.WithRetention(-1),
	} {
		if _, err := healthdiscovery.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
