//go:build interop

package living

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/e2e/harness"
	"github.com/xebec-proxy/xebec/xds"
)

// convergePatience is how long a change may take to arrive; it is that long for
// a server that comes back after a break.
const convergePatience = 40 * time.Second

// inForce is what a proxy has by discovery, as its dump tells, and what of it is
// not in force yet.
type inForce struct {
	held    map[xds.Key]proto.Message
	pending []string
}

func (f *inForce) add(a *anypb.Any) error {
	m, err := a.UnmarshalNew()
	if err == nil {
		f.held[key(m)] = m
	}
	return err
}

// dump reads what a proxy has.
func (p *proxy) dump() (*inForce, error) {
	page, err := p.Page("/config_dump?include_eds")
	if err != nil {
		return nil, err
	}
	var all adminv3.ConfigDump
	if err := protojson.Unmarshal([]byte(page), &all); err != nil {
		return nil, fmt.Errorf("config_dump: %w", err)
	}
	f := &inForce{held: map[xds.Key]proto.Message{}}
	var errs []error
	for _, section := range all.GetConfigs() {
		m, err := section.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		errs = append(errs, f.section(m))
	}
	return f, errors.Join(errs...)
}

func (f *inForce) section(m proto.Message) error {
	var errs []error
	switch m := m.(type) {
	case *adminv3.ClustersConfigDump:
		for _, c := range m.GetDynamicActiveClusters() {
			errs = append(errs, f.add(c.GetCluster()))
		}
		for _, c := range m.GetDynamicWarmingClusters() {
			if c.GetCluster() != nil {
				f.pending = append(f.pending, fmt.Sprintf("cluster %.80s", c.GetCluster().String()))
			}
		}
	case *adminv3.ListenersConfigDump:
		for _, l := range m.GetDynamicListeners() {
			if l.GetActiveState() != nil {
				errs = append(errs, f.add(l.GetActiveState().GetListener()))
			}
			if l.GetWarmingState() != nil {
				f.pending = append(f.pending, "listener "+l.GetName())
			}
		}
	case *adminv3.RoutesConfigDump:
		for _, r := range m.GetDynamicRouteConfigs() {
			if r.GetRouteConfig() != nil {
				errs = append(errs, f.add(r.GetRouteConfig()))
			}
		}
	case *adminv3.EndpointsConfigDump:
		for _, e := range m.GetDynamicEndpointConfigs() {
			errs = append(errs, f.add(e.GetEndpointConfig()))
		}
	case *adminv3.SecretsConfigDump:
		for _, s := range m.GetDynamicActiveSecrets() {
			errs = append(errs, f.add(s.GetSecret()))
		}
		for _, s := range m.GetDynamicWarmingSecrets() {
			f.pending = append(f.pending, "secret "+s.GetName())
		}
	}
	return errors.Join(errs...)
}

// differs tells what a proxy does not have as it should, nil if it has all.
func (w *world) differs(f *inForce) error {
	var errs []error
	for _, k := range sortedKeys(w.held) {
		want, got := w.held[k], f.held[k]
		if k.Type == xds.EndpointType && !w.usesAssignment(k.Name) {
			continue
		}
		if got == nil {
			errs = append(errs, fmt.Errorf("no %s %s", xds.Kind(k.Type), k.Name))
		} else if !equal(want, got) {
			errs = append(errs, fmt.Errorf("another %s %s", xds.Kind(k.Type), k.Name))
		}
	}
	for _, k := range sortedKeys(f.held) {
		if w.held[k] == nil && k.Type != xds.EndpointType {
			errs = append(errs, fmt.Errorf("a %s %s", xds.Kind(k.Type), k.Name))
		}
	}
	if len(f.pending) > 0 {
		errs = append(errs, fmt.Errorf("warming: %v", f.pending))
	}
	return errors.Join(errs...)
}

func (w *world) usesAssignment(name string) bool {
	for k, m := range w.held {
		if c, ok := m.(*clusterv3.Cluster); ok && k.Type == xds.ClusterType && c.GetEdsClusterConfig().GetServiceName() == name {
			return true
		}
	}
	return false
}

// equal compares a resource with that of a dump, where keys are missing and
// assignments are hosts.
func equal(want, got proto.Message) bool {
	switch want := want.(type) {
	case *tlsv3.Secret:
		other, ok := got.(*tlsv3.Secret)
		return ok && string(data(want)) == string(data(other))
	case *endpointv3.ClusterLoadAssignment:
		other, ok := got.(*endpointv3.ClusterLoadAssignment)
		return ok && slices.Equal(hosts(want), hosts(other))
	case *routev3.RouteConfiguration:
		return proto.Equal(want, got)
	}
	return proto.Equal(want, got)
}

func data(s *tlsv3.Secret) []byte {
	c := s.GetTlsCertificate().GetCertificateChain()
	return append([]byte(c.GetInlineString()), c.GetInlineBytes()...)
}

// hosts are an assignment's, in order.
func hosts(la *endpointv3.ClusterLoadAssignment) []string {
	var out []string
	for _, l := range la.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			out = append(out, fmt.Sprint(l.GetPriority(), " ", l.GetLocality().GetZone(), " ", l.GetLoadBalancingWeight().GetValue(), " ",
				e.GetEndpoint().GetAddress().GetSocketAddress().GetPortValue(), " ", e.GetLoadBalancingWeight().GetValue()))
		}
	}
	slices.Sort(out)
	return out
}

// converge waits until the proxy has what it should have. It returns how long
// that took.
func (p *proxy) converge(t testing.TB, w *world) time.Duration {
	t.Helper()
	return harness.Eventually(t, convergePatience, "the proxy has its configuration", func() error {
		p.Check(t)
		f, err := p.dump()
		if err != nil {
			return err
		}
		if err := w.differs(f); err != nil {
			return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		return nil
	})
}
