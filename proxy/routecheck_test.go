//go:build unix

package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/dataplane/routedecode"
	"github.com/xebec-proxy/xebec/proxy"
)

// bySource is how routes come: each version is encoded, and decoded as by discovery, or
// is other messages each time.
type bySource struct {
	res     *proxy.Resources
	decoder *routedecode.Decoder
	version int
}

func (s *bySource) set(t testing.TB, rc *routev3.RouteConfiguration) error {
	t.Helper()
	body, err := proto.Marshal(rc)
	must(t, err)
	s.version++
	return s.bring(t, body)
}

func (s *bySource) bring(t testing.TB, body []byte) error {
	t.Helper()
	came := &routev3.RouteConfiguration{}
	var err error
	if s.decoder != nil {
		came, err = s.decoder.Decode(body)
	} else {
		err = proto.Unmarshal(body, came)
	}
	must(t, err)
	return s.res.SetRoutes(nil, came, fmt.Sprint(s.version))
}

// withHost is a route configuration with another virtual host at a place.
func withHost(rc *routev3.RouteConfiguration, i int, vh *routev3.VirtualHost) *routev3.RouteConfiguration {
	next := route.WithoutHosts(rc)
	next.VirtualHosts = slices.Clone(rc.GetVirtualHosts())
	next.VirtualHosts[i] = vh
	return next
}

// peculiar are virtual hosts of which the second uses a deprecated field, the third has
// a field that nobody knows and the fourth a setting of an optional filter that is not
// built.
func peculiar(t testing.TB) *routev3.RouteConfiguration {
	t.Helper()
	rc := manyHosts(4, "x")
	rc.Name = "rc"
	rc.VirtualHosts[1].Routes[0].Match.Headers = []*routev3.HeaderMatcher{{
		Name: "host", HeaderMatchSpecifier: &routev3.HeaderMatcher_PrefixMatch{PrefixMatch: "h"}, //nolint:staticcheck // it is to be deprecated
	}}
	rc.VirtualHosts[2].ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4001, protowire.VarintType), 1))
	setting, err := anypb.New(&routev3.FilterConfig{IsOptional: true, Config: &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.BoolValue", Value: []byte{8, 1}}})
	must(t, err)
	rc.VirtualHosts[3].TypedPerFilterConfig = map[string]*anypb.Any{"acme": setting}
	return rc
}

const counts = "http.in.rds.rc.(update|config_reload$)|runtime.deprecated_feature_use|server.dynamic_unknown_fields"

// What stands in a virtual host that has stayed is counted, shown and refused as if it
// had come anew, whether it is the same message or an equal one.
//
// Partly proves RT-13, BS-15, BS-17, BS-20.
func TestHostsThatStayCountAsBefore(t *testing.T) {
	for _, decoder := range []*routedecode.Decoder{nil, {}} {
		t.Run(fmt.Sprint("decoder ", decoder != nil), func(t *testing.T) {
			r := begin(t, discovered+"layered_runtime: {layers: [{name: admin, admin_layer: {}}]}\n", newSource().by)
			s := &bySource{res: r.Resources(), decoder: decoder}
			rc := peculiar(t)
			must(t, s.set(t, rc))
			<-r.Ready()
			for i := range 3 {
				rc = withHost(rc, 0, numberedHost(0, fmt.Sprint("v", i)))
				must(t, s.set(t, rc))
			}
			must(t, s.set(t, rc)) // the same
			s.version++
			wrong := withHost(rc, 0, &routev3.VirtualHost{Name: "h0"})
			err := s.set(t, wrong)
			if err == nil || !strings.Contains(err.Error(), "RouteConfiguration.VirtualHosts[0]") {
				t.Errorf("%v", err)
			}
			twice := withHost(rc, 0, numberedHost(2, "twice"))
			if err := s.set(t, twice); err == nil || !strings.Contains(err.Error(), "virtual_hosts[2].domains[0]: Only unique values") {
				t.Errorf("%v", err)
			}
			got := r.get(t, "/stats?filter="+counts)
			// The second refused one was checked before it was found wrong.
			for _, want := range []string{"config_reload: 4", "update_success: 5", "update_rejected: 2", "deprecated_feature_use: 5", "dynamic_unknown_fields: 5"} {
				if !strings.Contains(got, want+"\n") {
					t.Errorf("want %s:\n%s", want, got)
				}
			}
			dump := r.get(t, "/config_dump?resource=dynamic_route_configs")
			if !strings.Contains(dump, "v2") || !strings.Contains(dump, "prefix_match") || strings.Count(dump, "BoolValue") != 1 {
				t.Errorf("the dump has the optional setting elsewhere than in the refused one, or not what is in force:\n%s", dump)
			}
			r.ask(t, "POST", "/runtime_modify?envoy.features.fail_on_any_deprecated_feature=true", "")
			rc = withHost(rc, 0, numberedHost(0, "late"))
			if err := s.set(t, rc); err == nil || !strings.Contains(err.Error(), "virtual_hosts[1].routes[0].match.headers[0].prefix_match: Using deprecated option") {
				t.Errorf("the runtime forbids what has stayed: %v", err)
			}
			r.ask(t, "POST", "/runtime_modify?envoy.features.fail_on_any_deprecated_feature=false", "")
			must(t, s.set(t, rc))
		})
	}
}

// A warning names the place of a virtual host among all.
func TestWarningsNameTheHostAmongAll(t *testing.T) {
	r := begin(t, discovered, newSource().by)
	s := &bySource{res: r.Resources(), decoder: &routedecode.Decoder{}}
	rc := peculiar(t)
	odd := rc.VirtualHosts[2]
	rc = withHost(rc, 2, numberedHost(2, "x"))
	must(t, s.set(t, rc))
	if got := r.log.String(); strings.Contains(got, "4001") {
		t.Fatalf("the log has it:\n%s", got)
	}
	must(t, s.set(t, withHost(rc, 2, odd)))
	if got := r.log.String(); !strings.Contains(got, "virtual_hosts[2]") || !strings.Contains(got, "4001") {
		t.Errorf("the log:\n%s", got)
	}
}

// One virtual host of thousands that has changed costs what it is: it is decoded,
// checked and built alone.
//
// Partly proves RT-13.
func TestOneHostOfRoutesCostsLittle(t *testing.T) {
	const n = 2000
	r := begin(t, discovered, newSource().by)
	s := &bySource{res: r.Resources(), decoder: &routedecode.Decoder{}}
	rc := manyHosts(n, "x")
	rc.Name = "rc"
	must(t, s.set(t, rc))
	var bodies [2][]byte
	for i := range bodies {
		b, err := proto.Marshal(withHost(rc, 7, numberedHost(7, fmt.Sprint(i))))
		must(t, err)
		bodies[i] = b
	}
	i := 0
	allocs := testing.AllocsPerRun(10, func() {
		i++
		must(t, s.bring(t, bodies[i%2]))
	})
	if allocs > n/4 {
		t.Errorf("a change of one of %d virtual hosts allocates %v times", n, allocs)
	}
}

// BenchmarkOneHostOfRoutes changes one virtual host of a route configuration, from its
// encoding to its workers.
func BenchmarkOneHostOfRoutes(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		for _, decoder := range []*routedecode.Decoder{{}, nil} {
			b.Run(fmt.Sprintf("%d/decoder=%t", n, decoder != nil), func(b *testing.B) {
				s := &bySource{res: begin(b, discovered, newSource().by).Resources(), decoder: decoder}
				rc := manyHosts(n, "x")
				rc.Name = "rc"
				must(b, s.set(b, rc))
				var bodies [2][]byte
				for i := range bodies {
					body, err := proto.Marshal(withHost(rc, n/2, numberedHost(n/2, fmt.Sprint(i))))
					must(b, err)
					bodies[i] = body
				}
				each(b, func(i int) { must(b, s.bring(b, bodies[i%2])) })
			})
		}
	}
}
