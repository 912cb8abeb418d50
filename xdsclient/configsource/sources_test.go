package configsource_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/goleak"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/configsource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// opened notes the streams that sources open: who to, and which.
type opened struct {
	mu   sync.Mutex
	list []string
}

func (o *opened) take() string {
	time.Sleep(time.Millisecond)
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	s := strings.Join(o.list, ", ")
	o.list = nil
	return s
}

type transport struct {
	name string
	o    *opened
}

func (t transport) Open(ctx context.Context, op xdsclient.Opening) (xdsclient.Stream, error) {
	variant := "sotw"
	if op.Delta {
		variant = "delta"
	}
	what := "ads"
	if op.TypeURL != "" {
		what = xds.Kind(op.TypeURL)
	}
	t.o.mu.Lock()
	defer t.o.mu.Unlock()
	t.o.list = append(t.o.list, t.name+" "+variant+" "+what)
	return silent{ctx}, nil
}

func (transport) Close() error { return nil }

type silent struct{ ctx context.Context }

func (silent) Send(*client.Request) error { return nil }

func (s silent) Recv() (*client.Response, error) { <-s.ctx.Done(); return nil, s.ctx.Err() }

func parse(t *testing.T, text string) *corev3.ConfigSource {
	t.Helper()
	var tree any
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	b, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	var cs corev3.ConfigSource
	if err := protojson.Unmarshal(b, &cs); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return &cs
}

func ads(t *testing.T, apiType string) *corev3.ApiConfigSource {
	t.Helper()
	return parse(t, `{apiConfigSource: {apiType: `+apiType+`, transportApiVersion: V3, grpcServices: [{envoyGrpc: {clusterName: "main"}}]}}`).GetApiConfigSource()
}

func config(t *testing.T, o *opened) configsource.Config {
	t.Helper()
	return configsource.Config{
		ADS: ads(t, "GRPC"),
		GRPC: func(s *corev3.GrpcService) (xdsclient.Transport, error) {
			return transport{s.GetEnvoyGrpc().GetClusterName() + s.GetGoogleGrpc().GetTargetUri(), o}, nil
		},
		REST: func(_ *corev3.ApiConfigSource, cluster string) (xdsclient.Transport, error) {
			return transport{"rest " + cluster, o}, nil
		},
		File: func(p *corev3.PathConfigSource) (xdsclient.Transport, error) {
			return transport{"file " + p.GetPath(), o}, nil
		},
	}
}

func watch(s *xdsclient.Source, name string) (cancel func()) {
	return xdsclient.Watch(s, xdsclient.Clusters(), name, xdsclient.Funcs[*clusterv3.Cluster]{})
}

func sources(t *testing.T, c configsource.Config) *configsource.Sources {
	t.Helper()
	s := configsource.New(context.WithoutCancel(t.Context()), c)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

const grpcService = `grpcServices: [{envoyGrpc: {clusterName: "svc"}}]`

// Proves XC-01, XC-02, GC-61, GC-70: which variant, of which server, over how
// many streams, each kind of config source means. Proves BS-08 with TestRefused.
// Partly proves BS-29: envoy_grpc and google_grpc.
func TestVariants(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`{ads: {}}`, "main sotw ads"},
		{`{resourceApiVersion: AUTO, ads: {}}`, "main sotw ads"},
		{`{apiConfigSource: {transportApiVersion: AUTO, apiType: GRPC, ` + grpcService + `}}`, "svc sotw Cluster"},
		{`{self: {}}`, ""},
		{`{apiConfigSource: {apiType: GRPC, ` + grpcService + `}}`, "svc sotw Cluster"},
		{`{apiConfigSource: {apiType: DELTA_GRPC, ` + grpcService + `}}`, "svc delta Cluster"},
		{`{apiConfigSource: {apiType: AGGREGATED_GRPC, ` + grpcService + `}}`, "svc sotw ads"},
		{`{apiConfigSource: {apiType: AGGREGATED_DELTA_GRPC, ` + grpcService + `}}`, "svc delta ads"},
		{`{apiConfigSource: {apiType: GRPC, grpcServices: [{googleGrpc: {targetUri: "host:1", statPrefix: x}}]}}`, "host:1 sotw Cluster"},
		{`{apiConfigSource: {apiType: REST, clusterNames: [c], refreshDelay: 1s}}`, "rest c sotw Cluster"},
		{`{pathConfigSource: {path: /a.yaml}}`, "file /a.yaml sotw Cluster"},
		{`{path: /b.yaml}`, "file /b.yaml sotw Cluster"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var o opened
			s := sources(t, config(t, &o))
			self, err := s.For(parse(t, `{ads: {}}`), xds.ClusterType, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // equal sources are one
				r, err := s.For(parse(t, c.source), xds.ClusterType, "a", self.Source)
				if err != nil {
					t.Fatalf("%s: %v", c.source, err)
				}
				if c.want == "" {
					if r.Source != self.Source {
						t.Errorf("%s is another source", c.source)
					}
					return
				}
				watch(r.Source, "a")
			}
			if got := o.take(); got != c.want {
				t.Errorf("%s opened %q, want %q", c.source, got, c.want)
			}
		})
	}
}

// The bootstrap's ads_config says which variant ads means.
// Partly proves XC-27: the default of 15 s.
func TestADS(t *testing.T) {
	for apiType, want := range map[string]string{"GRPC": "main sotw ads", "DELTA_GRPC": "main delta ads"} {
		synctest.Test(t, func(t *testing.T) {
			var o opened
			c := config(t, &o)
			c.ADS = ads(t, apiType)
			s := sources(t, c)
			for _, typeURL := range []string{xds.ClusterType, xds.ListenerType} {
				r, err := s.For(parse(t, `{ads: {}}`), typeURL, "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				if r.InitialFetchTimeout != 15*time.Second {
					t.Errorf("initial_fetch_timeout is %v by default", r.InitialFetchTimeout)
				}
				watch(r.Source, "a")
			}
			if got := o.take(); got != want {
				t.Errorf("opened %q, want %q", got, want)
			}
		})
	}
}

// Proves XC-31, XC-28: several services are tried in turn, with the back-off of
// retry_policy. Partly proves BS-29: the same.
func TestSeveralServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o opened
		c := config(t, &o)
		inner := c.GRPC
		c.GRPC = func(s *corev3.GrpcService) (xdsclient.Transport, error) {
			tr, err := inner(s)
			return failing{tr}, err
		}
		s := sources(t, c)
		r, err := s.For(parse(t, `{initialFetchTimeout: 0s, apiConfigSource: {apiType: GRPC, grpcServices: [
			{envoyGrpc: {clusterName: down}, retryPolicy: {retryBackOff: {baseInterval: 60s}}}, {envoyGrpc: {clusterName: gone}}]}}`),
			xds.ClusterType, "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.InitialFetchTimeout != 0 {
			t.Errorf("initial_fetch_timeout is %v", r.InitialFetchTimeout)
		}
		watch(r.Source, "a")
		if got := o.take(); got != "down sotw Cluster, gone sotw Cluster" {
			t.Errorf("first %q", got)
		}
		time.Sleep(29 * time.Second)
		if got := o.take(); got != "" {
			t.Errorf("after 29 s of a back-off of 60 s ± 50 %%: %q", got)
		}
		time.Sleep(time.Minute + 2*time.Second)
		if got := o.take(); got != "down sotw Cluster, gone sotw Cluster" {
			t.Errorf("then %q", got)
		}
	})
}

// flood answers each request with a response that is refused.
type flood struct {
	transport
	sent *atomic.Int64
}

func (f flood) Open(ctx context.Context, _ xdsclient.Opening) (xdsclient.Stream, error) {
	return &flooded{silent: silent{ctx}, sent: f.sent, due: make(chan struct{}, 1)}, nil
}

type flooded struct {
	silent
	sent *atomic.Int64
	due  chan struct{}
}

func (s *flooded) Send(*client.Request) error {
	s.sent.Add(1)
	select {
	case s.due <- struct{}{}:
	default:
	}
	return nil
}

func (s *flooded) Recv() (*client.Response, error) {
	select {
	case <-s.due:
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
	time.Sleep(time.Millisecond) // time goes by without a limit, too
	n := strconv.FormatInt(s.sent.Load(), 10)
	return &client.Response{TypeURL: xds.ClusterType, Version: n, Nonce: n, Resources: []client.Raw{{Name: "a", TypeURL: xds.ListenerType}}}, nil
}

// Proves BS-30: a flood of rejected responses is answered at the rate of
// rate_limit_settings, whose defaults are a burst of 100 and 10 for each second;
// without the message there is no limit.
func TestRateLimitSettings(t *testing.T) {
	for settings, want := range map[string][2]int64{
		``:                        {4000, 6000},
		`, rateLimitSettings: {}`: {149, 152},
		`, rateLimitSettings: {maxTokens: 5, fillRate: 2}`: {14, 16},
	} {
		synctest.Test(t, func(t *testing.T) {
			var o opened
			var sent atomic.Int64
			c := config(t, &o)
			c.GRPC = func(*corev3.GrpcService) (xdsclient.Transport, error) { return flood{transport{"", &o}, &sent}, nil }
			c.ADS = parse(t, `{apiConfigSource: {apiType: GRPC`+settings+`, `+grpcService+`}}`).GetApiConfigSource()
			r, err := sources(t, c).For(parse(t, `{ads: {}}`), xds.ClusterType, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			watch(r.Source, "a")
			time.Sleep(5 * time.Second)
			if n := sent.Load(); n < want[0] || n > want[1] {
				t.Errorf("%q: %d requests within 5 s, want %d to %d", settings, n, want[0], want[1])
			}
		})
	}
}

// The retry_policy of envoy_grpc is the one for streams of discovery, and wins.
func TestBackoffOfServices(t *testing.T) {
	for service, want := range map[string]string{
		`{envoyGrpc: {clusterName: a, retryPolicy: {retryBackOff: {baseInterval: 2s, maxInterval: 1s}}}}`:                                                  "grpc_services[0].envoy_grpc.retry_policy.retry_back_off",
		`{envoyGrpc: {clusterName: a}, retryPolicy: {retryBackOff: {baseInterval: 2s, maxInterval: 1s}}}`:                                                  "grpc_services[0].retry_policy.retry_back_off",
		`{envoyGrpc: {clusterName: a, retryPolicy: {retryBackOff: {baseInterval: 1s}}}, retryPolicy: {retryBackOff: {baseInterval: 2s, maxInterval: 1s}}}`: "",
	} {
		var o opened
		_, err := sources(t, config(t, &o)).For(parse(t, `{apiConfigSource: {apiType: GRPC, grpcServices: [`+service+`]}}`), xds.ClusterType, "a", nil)
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", service, err, want)
		}
	}
}

type failing struct{ xdsclient.Transport }

func (f failing) Open(ctx context.Context, o xdsclient.Opening) (xdsclient.Stream, error) {
	_, _ = f.Transport.Open(ctx, o)
	return nil, context.DeadlineExceeded
}

// Proves XN-12: who is asked for a structured name: the config source itself if
// it names the authority, then the bootstrap's, then the default.
func TestAuthorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o opened
		c := config(t, &o)
		named := func(service, authority string) *corev3.ConfigSource {
			return parse(t, `{authorities: [{name: `+authority+`}], apiConfigSource: {apiType: AGGREGATED_DELTA_GRPC, grpcServices: [{envoyGrpc: {clusterName: `+service+`}}]}}`)
		}
		c.Others = []*corev3.ConfigSource{named("first", "one"), named("second", "two"), named("third", "one")}
		s := sources(t, c)
		ask := func(cs *corev3.ConfigSource, authority string) (string, error) {
			name := "xdstp://" + authority + "/envoy.config.cluster.v3.Cluster/c"
			r, err := s.For(cs, xds.ClusterType, name, nil)
			if err != nil {
				return "", err
			}
			cancel := watch(r.Source, name)
			got := o.take()
			cancel()
			time.Sleep(2 * time.Second)
			return got, nil
		}
		for _, q := range []struct {
			cs              *corev3.ConfigSource
			authority, want string
		}{
			{named("peer", "one"), "one", "peer delta ads"},
			{named("peer", "other"), "one", "first delta ads"},
			{nil, "two", "second delta ads"},
			{parse(t, `{ads: {}}`), "nobody", "main sotw ads"},
		} {
			if got, err := ask(q.cs, q.authority); got != q.want || err != nil {
				t.Errorf("%s is asked of %q (%v), want %q", q.authority, got, err, q.want)
			}
		}
		if _, err := ask(named("peer", "other"), "nobody"); err == nil || !strings.Contains(err.Error(), `"nobody"`) {
			t.Errorf("an authority that nobody has: %v", err)
		}
	})
}

// versioned is a transport that notes the types of its streams.
type versioned struct {
	transport
	types *[]string
}

func (v versioned) Open(ctx context.Context, op xdsclient.Opening) (xdsclient.Stream, error) {
	*v.types = append(*v.types, op.TypeURL)
	return v.transport.Open(ctx, op)
}

// Proves XV-09 with TestRefused: AUTO, which is the default, means v3 as V3 does, in
// both places where a version is said; v2 is not offered, whatever is said.
func TestAutoIsV3(t *testing.T) {
	for _, version := range []string{"", "resourceApiVersion: AUTO, ", "resourceApiVersion: V3, "} {
		for _, transportVersion := range []string{"", "transportApiVersion: AUTO, ", "transportApiVersion: V3, "} {
			synctest.Test(t, func(t *testing.T) {
				var o opened
				var types []string
				c := config(t, &o)
				c.GRPC = func(*corev3.GrpcService) (xdsclient.Transport, error) {
					return versioned{transport{"svc", &o}, &types}, nil
				}
				s := sources(t, c)
				r, err := s.For(parse(t, "{"+version+"apiConfigSource: {"+transportVersion+"apiType: GRPC, "+grpcService+"}}"), xds.ClusterType, "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				watch(r.Source, "a")
				o.take()
				if len(types) != 1 || types[0] != "type.googleapis.com/envoy.config.cluster.v3.Cluster" {
					t.Errorf("%q %q opened streams of %q", version, transportVersion, types)
				}
			})
		}
	}
}

// What is not understood or does not make sense is refused with the field's
// name; v2 is one of these. Partly proves BS-08: v2 is refused.
func TestRefused(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`{}`, "config_source_specifier"},
		{`{self: {}}`, "self"},
		{`{resourceApiVersion: V2, ads: {}}`, "resource_api_version: V2"},
		{`{initialFetchTimeout: -1s, ads: {}}`, "initial_fetch_timeout"},
		{`{apiConfigSource: {transportApiVersion: V2, apiType: GRPC, ` + grpcService + `}}`, "transport_api_version: V2"},
		{`{apiConfigSource: {apiType: GRPC}}`, "grpc_services"},
		{`{apiConfigSource: {apiType: DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE, ` + grpcService + `}}`, "api_type"},
		{`{apiConfigSource: {apiType: REST, refreshDelay: 1s}}`, "cluster_names"},
		{`{apiConfigSource: {apiType: REST, clusterNames: [a]}}`, "refresh_delay"},
		{`{apiConfigSource: {apiType: GRPC, configValidators: [{name: v}], ` + grpcService + `}}`, "config_validators[0]"},
		{`{apiConfigSource: {apiType: GRPC, rateLimitSettings: {fillRate: -1}, ` + grpcService + `}}`, "fill_rate"},
		{`{apiConfigSource: {apiType: GRPC, grpcServices: [{envoyGrpc: {clusterName: a}, retryPolicy: {retryBackOff: {baseInterval: 2s, maxInterval: 1s}}}]}}`, "max_interval"},
	} {
		var o opened
		s := sources(t, config(t, &o))
		if _, err := s.For(parse(t, c.source), xds.ClusterType, "a", nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.source, err, c.want)
		}
	}
	s := sources(t, configsource.Config{})
	for want, source := range map[string]string{
		"ads_config": `{ads: {}}`, "gRPC is not": `{apiConfigSource: {apiType: GRPC, ` + grpcService + `}}`,
		"REST is not": `{apiConfigSource: {apiType: REST, clusterNames: [a], refreshDelay: 1s}}`, "files are not": `{path: /a}`,
	} {
		if _, err := s.For(parse(t, source), xds.ClusterType, "a", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}
