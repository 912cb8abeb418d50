package healthdiscovery_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/xdsserver/healthdiscovery"
)

const (
	healthy   = corev3.HealthStatus_HEALTHY
	unhealthy = corev3.HealthStatus_UNHEALTHY
	timeout   = corev3.HealthStatus_TIMEOUT
)

// Proves XL-14.
func TestPerClusterResultsArePreferred(t *testing.T) {
	inBubble(t, func(b *bench) {
		c, _ := b.join("one")
		defer c.Leave()
		both := inCluster("web", health("10.0.0.2", timeout), health("10.0.0.1", healthy))
		both.ClusterEndpointsHealth[0].LocalityEndpointsHealth[0].EndpointsHealth[1].HealthMetadata = &structpb.Struct{
			Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(200)},
		}
		both.EndpointsHealth = []*healthv3.EndpointHealth{health("10.9.9.9", unhealthy)} //nolint:staticcheck // Both forms, on purpose.
		c.report(both)
		at, place := time.Now(), healthdiscovery.Locality{Region: "r", Zone: "z"}
		want := []healthdiscovery.EndpointHealth{
			{
				Cluster: "web", Locality: place, Address: "10.0.0.1:80", Hostname: "host-10.0.0.1", Status: healthy, Since: at,
				Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"http_status_code": structpb.NewNumberValue(200)}},
			},
			{Cluster: "web", Locality: place, Address: "10.0.0.2:80", Hostname: "host-10.0.0.2", Status: timeout, Since: at},
		}
		if d := cmp.Diff(want, b.server.ByNode("one")[0].Endpoints, protocmp.Transform()); d != "" {
			b.Errorf("results (-want +got):\n%s", d)
		}
		c.report(&healthv3.EndpointHealthResponse{
			EndpointsHealth: []*healthv3.EndpointHealth{health("10.9.9.9", unhealthy)}, //nolint:staticcheck // The old form.
		})
		want = []healthdiscovery.EndpointHealth{
			{Address: "10.9.9.9:80", Hostname: "host-10.9.9.9", Status: unhealthy, Since: at},
		}
		if d := cmp.Diff(want, b.server.ByNode("one")[0].Endpoints, protocmp.Transform()); d != "" {
			b.Errorf("results of the flat form (-want +got):\n%s", d)
		}
		if got := b.server.ByCluster(""); len(got) != 1 || got[0].Status() != unhealthy {
			b.Errorf("endpoints without a cluster: %+v", got)
		}
	})
}

func TestReportsReplaceOneAnother(t *testing.T) {
	inBubble(t, func(b *bench) {
		var delivered []healthdiscovery.NodeHealth
		cancel := b.server.Subscribe(func(h healthdiscovery.NodeHealth) {
			delivered = append(delivered, h)
			_ = b.server.Nodes() // no lock is held
		})
		c, _ := b.join("one")
		defer c.Leave()
		start := time.Now()
		c.report(inCluster("web", health("10.0.0.1", healthy), health("10.0.0.2", healthy)))
		time.Sleep(time.Second)
		c.report(inCluster("web", health("10.0.0.1", timeout), health("10.0.0.1", healthy), health("10.0.0.2", unhealthy)))
		got := b.server.ByNode("one")[0]
		if len(got.Endpoints) != 2 || !got.LastReport.Equal(start.Add(time.Second)) || got.Streams != 1 {
			b.Fatalf("node: %+v", got)
		}
		if e := got.Endpoints[0]; e.Status != healthy || !e.Since.Equal(start) {
			b.Errorf("the last status of an endpoint given twice must count, and lasts since the start: %+v", e)
		}
		if e := got.Endpoints[1]; e.Status != unhealthy || !e.Since.Equal(start.Add(time.Second)) {
			b.Errorf("a changed status begins anew: %+v", e)
		}
		cancel()
		c.report(inCluster("web", health("10.0.0.2", unhealthy)))
		if got := b.server.ByCluster("web"); len(got) != 1 {
			b.Errorf("an endpoint that is no longer reported is still there: %+v", got)
		}
		if len(delivered) != 2 || delivered[0].Node.ID != "one" || len(delivered[1].Endpoints) != 2 {
			b.Errorf("delivered: %+v", delivered)
		}
	})
}

func TestByClusterOverNodes(t *testing.T) {
	inBubble(t, func(b *bench) {
		var streams []*clientStream
		for id, s := range map[string]corev3.HealthStatus{"a": healthy, "b": unhealthy, "c": unhealthy} {
			c, _ := b.join(id)
			c.report(inCluster("web", health("10.0.0.1", s)))
			streams = append(streams, c)
		}
		at := time.Now()
		seen := func(id string, s corev3.HealthStatus, connected bool) healthdiscovery.Observation {
			return healthdiscovery.Observation{
				NodeID: id, NodeCluster: "edge", Connected: connected, Status: s, Since: at, Reported: at,
			}
		}
		check := func(connected bool, status corev3.HealthStatus) {
			b.Helper()
			want := []healthdiscovery.Endpoint{{
				Cluster: "web", Locality: healthdiscovery.Locality{Region: "r", Zone: "z"}, Address: "10.0.0.1:80", Hostname: "host-10.0.0.1",
				Observations: []healthdiscovery.Observation{
					seen("a", healthy, connected), seen("b", unhealthy, connected), seen("c", unhealthy, connected),
				},
			}}
			got := b.server.ByCluster("web")
			if d := cmp.Diff(want, got); d != "" {
				b.Errorf("web (-want +got):\n%s", d)
			}
			if got[0].Status() != status {
				b.Errorf("status %v, want %v", got[0].Status(), status)
			}
		}
		check(true, unhealthy)
		for _, c := range streams {
			c.Leave()
		}
		synctest.Wait()
		check(false, corev3.HealthStatus_UNKNOWN)
		time.Sleep(time.Minute)
		if got := b.server.ByCluster("web"); len(got) != 0 || len(b.server.Nodes()) != 0 {
			b.Errorf("not forgotten: %+v", got)
		}
	}, healthdiscovery.WithRetention(time.Minute))
}

func TestStatusOfManyNodes(t *testing.T) {
	for _, c := range []struct {
		votes []corev3.HealthStatus
		want  corev3.HealthStatus
	}{
		{nil, corev3.HealthStatus_UNKNOWN},
		{[]corev3.HealthStatus{healthy}, healthy},
		{[]corev3.HealthStatus{healthy, healthy, unhealthy}, healthy},
		{[]corev3.HealthStatus{healthy, unhealthy}, unhealthy},
		{[]corev3.HealthStatus{timeout, unhealthy}, unhealthy},
		{[]corev3.HealthStatus{healthy, corev3.HealthStatus_UNKNOWN}, corev3.HealthStatus_UNKNOWN},
		{[]corev3.HealthStatus{corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED}, corev3.HealthStatus_DEGRADED},
		{[]corev3.HealthStatus{corev3.HealthStatus_DEGRADED, timeout}, timeout},
		{[]corev3.HealthStatus{unhealthy, corev3.HealthStatus_DRAINING}, corev3.HealthStatus_DRAINING},
	} {
		e := healthdiscovery.Endpoint{Observations: []healthdiscovery.Observation{{Status: corev3.HealthStatus_DRAINING}}}
		for _, s := range c.votes {
			e.Observations = append(e.Observations, healthdiscovery.Observation{Status: s, Connected: true})
		}
		if got := e.Status(); got != c.want {
			t.Errorf("%v: %v, want %v", c.votes, got, c.want)
		}
	}
}

func TestRefusedMessagesEndOnlyTheirStream(t *testing.T) {
	limits := healthdiscovery.Limits{Clusters: 1, Localities: 1, Endpoints: 1}
	twoClusters := inCluster("web")
	twoClusters.ClusterEndpointsHealth = append(twoClusters.ClusterEndpointsHealth, &healthv3.ClusterEndpointsHealth{ClusterName: "b"})
	twoPlaces := inCluster("web")
	twoPlaces.ClusterEndpointsHealth[0].LocalityEndpointsHealth = append(
		twoPlaces.ClusterEndpointsHealth[0].LocalityEndpointsHealth, &healthv3.LocalityEndpointsHealth{})
	for want, c := range map[string]struct {
		bad  *message
		code codes.Code
	}{
		"more than 1 clusters":   {results(twoClusters), codes.ResourceExhausted},
		"more than 1 localities": {results(twoPlaces), codes.ResourceExhausted},
		"more than 1 endpoints": {
			results(inCluster("web", health("10.0.0.1", healthy), health("10.0.0.2", healthy))), codes.ResourceExhausted,
		},
		"cluster_name is empty":                {results(inCluster("")), codes.InvalidArgument},
		"endpoints_health[0].endpoint.address": {results(inCluster("web", &healthv3.EndpointHealth{})), codes.InvalidArgument},
		"must be a HealthCheckRequest or":      {&message{}, codes.InvalidArgument},
		`began as node "bad" and now says "x"`: {hello("x"), codes.InvalidArgument},
	} {
		t.Run(want, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				good, _ := b.join("good")
				defer good.Leave()
				bad, _ := b.join("bad")
				bad.Send(c.bad)
				if err := bad.End(c.code); !strings.Contains(err.Error(), want) {
					b.Errorf("the error does not say %q: %v", want, err)
				}
				good.report(inCluster("web", health("10.0.0.1", healthy)))
				if n := b.server.Nodes(); len(n) != 2 || len(n[0].Endpoints) != 0 || len(n[1].Endpoints) != 1 {
					b.Errorf("nodes: %+v; want results of the good one only", n)
				}
			}, healthdiscovery.WithLimits(limits))
		})
	}
}

func TestFirstMessageIntroducesTheNode(t *testing.T) {
	nameless := hello("x")
	nameless.GetHealthCheckRequest().Node = nil
	for name, m := range map[string]*message{
		"results first": results(inCluster("web")), "no node": nameless, "empty": {},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c := b.open()
				c.Send(m)
				_ = c.End(codes.InvalidArgument)
				if _, err := b.client.FetchHealthCheck(b.Context(), m); status.Code(err) != codes.InvalidArgument {
					b.Errorf("fetch: %v", err)
				}
				if n := b.server.Nodes(); len(n) != 0 {
					b.Errorf("nodes: %+v", n)
				}
			})
		})
	}
}

func TestLimitsOfTheServer(t *testing.T) {
	inBubble(t, func(b *bench) {
		one, _ := b.join("one")
		two := b.open()
		two.Send(hello("two"))
		_ = two.End(codes.ResourceExhausted)
		again, _ := b.join("one")
		third := b.open()
		third.Send(hello("one"))
		_ = third.End(codes.ResourceExhausted)
		one.Leave()
		again.Leave()
		synctest.Wait()
		time.Sleep(healthdiscovery.DefaultRetention)
		two, _ = b.join("two")
		two.Leave()
	}, healthdiscovery.WithLimits(healthdiscovery.Limits{Streams: 2, Nodes: 1}))
}

func TestStreamsEnd(t *testing.T) {
	inBubble(t, func(b *bench) {
		half, _ := b.join("half")
		if err := half.CloseSend(); err != nil {
			b.Fatal(err)
		}
		if _, err := half.Recv(); err == nil || err.Error() != "EOF" {
			b.Errorf("the half-closed stream ended with %v", err)
		}
		silent := b.open()
		c, _ := b.join("one")
		b.server.Close()
		b.server.Close()
		_ = c.End(codes.Unavailable)
		_ = silent.End(codes.Unavailable)
		late := b.open() // refused before it says anything
		_ = late.End(codes.Unavailable)
	})
}
