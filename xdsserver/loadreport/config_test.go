package loadreport_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// Proves XL-01.
func TestAnswersTheFirstRequestAndEveryChange(t *testing.T) {
	first := loadreport.Config{Clusters: []string{"b", "a", "b"}, Interval: 3 * time.Second, EndpointGranularity: true}
	inBubble(t, func(b *bench) {
		quiet := b.open()
		answered := make(chan struct{})
		go func() { defer close(answered); _, _ = quiet.Recv() }()
		one, answer := b.join(envoy("one"))
		two, _ := b.join(envoy("two"))
		want := &lrsv3.LoadStatsResponse{
			Clusters: []string{"a", "b"}, LoadReportingInterval: durationpb.New(3 * time.Second),
			ReportEndpointGranularity: true,
		}
		if d := cmp.Diff(want, answer, protocmp.Transform()); d != "" {
			b.Errorf("first answer (-want +got):\n%s", d)
		}
		synctest.Wait()
		select {
		case <-answered:
			b.Error("the server spoke before the first request")
		default:
		}
		if err := b.server.SetConfig(loadreport.Config{Clusters: []string{"c"}}); err != nil {
			b.Fatal(err)
		}
		want = &lrsv3.LoadStatsResponse{
			Clusters: []string{"c"}, LoadReportingInterval: durationpb.New(loadreport.DefaultInterval),
		}
		for _, c := range []*clientStream{one, two} {
			if d := cmp.Diff(want, c.Answer(), protocmp.Transform()); d != "" {
				b.Errorf("answer after the change (-want +got):\n%s", d)
			}
			c.Leave()
		}
		quiet.Leave()
		<-answered
	}, loadreport.WithConfig(first))
}

// Proves XL-02.
func TestSendAllClustersNeedsTheFeature(t *testing.T) {
	for name, c := range map[string]struct {
		node   *corev3.Node
		config loadreport.Config
		all    bool
		names  []string
	}{
		"asked and able":      {sendsAll("n"), loadreport.Config{AllClusters: true, Clusters: []string{"a"}}, true, nil},
		"asked, not able":     {envoy("n"), loadreport.Config{AllClusters: true, Clusters: []string{"a"}}, false, []string{"a"}},
		"able, not asked":     {sendsAll("n"), loadreport.Config{Clusters: []string{"a"}}, false, []string{"a"}},
		"able, nothing asked": {sendsAll("n"), loadreport.Config{}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				stream, r := b.join(c.node)
				defer stream.Leave()
				if r.GetSendAllClusters() != c.all || !cmp.Equal(r.GetClusters(), c.names) {
					b.Errorf("asked for all: %t, clusters %q", r.GetSendAllClusters(), r.GetClusters())
				}
			}, loadreport.WithConfig(c.config))
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for name, o := range map[string]loadreport.Option{
		"negative interval":  loadreport.WithConfig(loadreport.Config{Interval: -1}),
		"empty cluster":      loadreport.WithConfig(loadreport.Config{Clusters: []string{""}}),
		"negative limit":     loadreport.WithLimits(loadreport.Limits{Nodes: -1}),
		"negative retention": loadreport.WithRetention(-1),
	} {
		if _, err := loadreport.New(o); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	s, err := loadreport.New()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SetConfig(loadreport.Config{Interval: -1}); err == nil {
		t.Error("SetConfig accepted a negative interval")
	}
	want := loadreport.Config{AllClusters: true, Interval: loadreport.DefaultInterval}
	if d := cmp.Diff(want, s.Config()); d != "" {
		t.Errorf("configuration after a refused change (-want +got):\n%s", d)
	}
}
