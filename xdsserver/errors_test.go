package xdsserver_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

func withFeatures(id string, features ...string) *corev3.Node {
	return &corev3.Node{Id: id, Cluster: "test", ClientFeatures: features}
}

// errorsOf lists resource errors as "name:code".
func errorsOf(list []*discoveryv3.ResourceError) string {
	var out []string
	for _, e := range list {
		out = append(out, fmt.Sprintf("%s:%d", e.GetResourceName().GetName(), e.GetErrorDetail().GetCode()))
	}
	return fmt.Sprint(out)
}

// Proves XS-88: missing names are reported at once, in SotW by an otherwise
// empty response, in delta beside the removal; without the option they are not.
// Proves XS-85: an error is sent once, and never with its resource.
func TestMissingNamesAreReportedOnce(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithResourceErrors(true)}, func(h *harness) {
		h.set(res(xds.RouteType, "r", "1"), res(xds.ClusterType, "c", "1"))
		s, d := h.sotw(), h.delta()
		asked := time.Now()
		s.subscribe(node("s"), xds.RouteType, "r", "nope")
		d.subscribe(node("d"), xds.RouteType, "r", "nope")
		sr, dr := s.must(), d.must()
		if got := errorsOf(sr.GetResourceErrors()) + errorsOf(dr.GetResourceErrors()); got != "[nope:5][nope:5]" || time.Since(asked) > 100*time.Millisecond {
			t.Errorf("errors %s after %v", got, time.Since(asked))
		}
		if len(sr.GetResources()) != 1 || namesOf(dr) != "[r]" || fmt.Sprint(dr.GetRemovedResources()) != "[nope]" {
			t.Errorf("the rest of the responses: %v, %v", sr, dr)
		}
		s.ack(sr, "r", "nope")
		d.ack(dr)
		for i := range 3 {
			h.set(res(xds.RouteType, "r", fmt.Sprint("v", i)))
			sr, dr := s.must(), d.must()
			if len(sr.GetResourceErrors())+len(dr.GetResourceErrors()) != 0 {
				t.Errorf("an error came again: %v, %v", sr, dr)
			}
			s.ack(sr, "r", "nope")
			d.ack(dr)
		}
		h.set(res(xds.RouteType, "nope", "1"))
		sr, dr = s.must(), d.must()
		if len(sr.GetResources()) != 1 || namesOf(dr) != "[nope]" || len(sr.GetResourceErrors())+len(dr.GetResourceErrors()) != 0 {
			t.Errorf("once it exists: %v, %v", sr, dr)
		}
		// Nothing but errors is a response too.
		e := h.sotw()
		e.subscribe(node("e"), xds.RouteType, "nothing")
		if r := e.must(); len(r.GetResources()) != 0 || errorsOf(r.GetResourceErrors()) != "[nothing:5]" || r.GetNonce() == "" {
			t.Errorf("a response of errors alone: %v", r)
		}
		e.subscribe(nil, xds.ClusterType, "c", "nope")
		if r := e.must(); len(r.GetResources()) != 1 || errorsOf(r.GetResourceErrors()) != "[nope:5]" {
			t.Errorf("clusters: %v", r)
		}
	})
	bubble(t, nil, func(h *harness) {
		h.apply(snapshot.Batch{Full: true})
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.RouteType, "nope")
		s.silent("without the option")
		d.subscribe(node("d"), xds.RouteType, "nope")
		if r := d.must(); len(r.GetResourceErrors()) != 0 || fmt.Sprint(r.GetRemovedResources()) != "[nope]" {
			t.Errorf("without the option: %v", r)
		}
	})
}

// Proves XS-86: a client that does not know resource_errors reads everything
// else.
func TestOldClientsReadResponsesWithErrors(t *testing.T) {
	bubble(t, []xdsserver.Option{xdsserver.WithResourceErrors(true)}, func(h *harness) {
		h.set(res(xds.ClusterType, "a", "1"), res(xds.ClusterType, "b", "1"))
		s := h.sotw()
		s.subscribe(node("s"), xds.ClusterType, "*")
		s.ack(s.must(), "*", "nope")
		data, err := proto.Marshal(s.must())
		if err != nil {
			t.Fatal(err)
		}
		var old discoveryv3.DiscoveryResponse
		const field = 7
		if err := proto.Unmarshal(without(t, data, field), &old); err != nil {
			t.Fatal(err)
		}
		if len(old.GetResources()) != 2 || old.GetVersionInfo() == "" || old.GetNonce() == "" || len(old.GetResourceErrors()) != 0 {
			t.Errorf("an old client reads %v", &old)
		}
	})
}

// without takes a field out of a message; there has to be one.
func without(t *testing.T, data []byte, field protowire.Number) []byte {
	t.Helper()
	var out []byte
	found := false
	for len(data) > 0 {
		num, _, n := protowire.ConsumeField(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		if num == field {
			found = true
		} else {
			out = append(out, data[:n]...)
		}
		data = data[n:]
	}
	if !found {
		t.Fatalf("there is no field %d", field)
	}
	return out
}

// Proves XS-82: clients that need TypedStruct get converted resources, each
// content converted once; what cannot be converted, and everything without a
// converter, is an error.
func TestConverter(t *testing.T) {
	needs := func(id string) *corev3.Node { return withFeatures(id, "unknown.feature", xds.FeatureRequireAnyStruct) }
	var calls atomic.Int32
	convert := func(r *xds.Resource) (*xds.Resource, error) {
		calls.Add(1)
		if r.Name() == "bad" {
			return nil, errors.New("no such extension")
		}
		return xds.NewResource(r.TypeURL(), r.Name(), []byte("\x0a\x01!"), xds.WithVersion(r.Version())), nil
	}
	bubble(t, []xdsserver.Option{xdsserver.WithConverter(convert)}, func(h *harness) {
		h.set(res(xds.ClusterType, "good", "1"), res(xds.ClusterType, "bad", "1"))
		for i := range 3 {
			s, d := h.sotw(), h.delta()
			s.subscribe(needs(fmt.Sprint("s", i)), xds.ClusterType)
			d.subscribe(needs(fmt.Sprint("d", i)), xds.ClusterType)
			sr, dr := s.must(), d.must()
			if len(sr.GetResources()) != 1 || string(sr.GetResources()[0].GetValue()) != "\x0a\x01!" {
				t.Errorf("sotw: %v", sr)
			}
			if namesOf(dr) != "[good]" || string(dr.GetResources()[0].GetResource().GetValue()) != "\x0a\x01!" || errorsOf(dr.GetResourceErrors()) != "[bad:13]" {
				t.Errorf("delta: %v", dr)
			}
		}
		fetched := &discoveryv3.DiscoveryResponse{}
		if err := h.conn().Invoke(h.ctx, cdsFetch, &discoveryv3.DiscoveryRequest{Node: needs("f")}, fetched); err != nil || len(fetched.GetResources()) != 1 ||
			string(fetched.GetResources()[0].GetValue()) != "\x0a\x01!" {
			t.Errorf("fetch: %v, %v", fetched, err)
		}
		if n := calls.Load(); n != 2 {
			t.Errorf("%d conversions of 2 resources", n)
		}
		d := h.delta()
		d.subscribe(node("plain"), xds.ClusterType)
		if r := d.must(); namesOf(r) != "[bad good]" || len(r.GetResources()[0].GetResource().GetValue()) != 0 {
			t.Errorf("a client without the feature: %v", r)
		}
	})
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.ClusterType, "c", "1"))
		d := h.delta()
		d.subscribe(needs("d"), xds.ClusterType, "c")
		if r := d.must(); len(r.GetResources()) != 0 || errorsOf(r.GetResourceErrors()) != "[c:13]" {
			t.Errorf("without a converter: %v", r)
		}
	})
}

// The group function sees every feature of the first request, by both spellings
// where there are two, and no other's; what nobody knows changes nothing, nor
// does what a later request says.
// Proves XS-81; the gates themselves are those of XS-82, XL-02 and XT-01.
func TestFeaturesDecideTheGroup(t *testing.T) {
	known := []string{
		xds.FeatureRequireAnyStruct, xds.FeatureNoOverprovisioning, xds.FeatureSendAllClusters, xds.FeatureResourceTTL, xds.FeatureResourceInSotw,
	}
	groupOf := func(n *xds.Node) string {
		var has []string
		for _, f := range known {
			if n.Supports(f) {
				has = append(has, f)
			}
		}
		return fmt.Sprint(has)
	}
	same := func(r *xds.Resource) (*xds.Resource, error) { return r, nil }
	bubble(t, []xdsserver.Option{xdsserver.WithGroups(groupOf), xdsserver.WithConverter(same)}, func(h *harness) {
		h.setIn("[]", res(xds.ClusterType, "none", "1"))
		h.setIn(fmt.Sprint(known), res(xds.ClusterType, "all", "1"))
		for i, f := range known {
			h.setIn("["+f+"]", res(xds.ClusterType, fmt.Sprint("only", i), "1"))
		}
		for _, c := range []struct {
			want     string
			features []string
		}{
			{"[none]", nil},
			{"[none]", []string{"never.heard"}},
			{"[only0]", []string{"envoy.config.require-any-fields-contain-struct"}},
			{"[only1]", []string{"envoy.lb.does_not_support_overprovisioning"}},
			{"[only2]", []string{"envoy.lrs.supports_send_all_clusters"}},
			{"[only3]", []string{"xds.config.supports-resource-ttl", "never.heard"}},
			{"[only4]", []string{"xds.config.resource-in-sotw"}},
			{"[only4]", []string{"xds.config.supports-resource-in-sotw"}},
			{"[all]", known},
		} {
			d := h.delta()
			d.subscribe(withFeatures("d", c.features...), xds.ClusterType)
			r := d.must()
			if got := namesOf(r); got != c.want {
				t.Errorf("features %v: %s, want %s", c.features, got, c.want)
			}
			d.send(&discoveryv3.DeltaDiscoveryRequest{Node: withFeatures("d", xds.FeatureResourceTTL), TypeUrl: xds.ClusterType, ResponseNonce: r.GetNonce()})
			d.silent("after a request with other features")
		}
	})
}

// Proves XS-45: the API refuses two resources of one name and changes nothing;
// on the wire a name that is asked for twice comes once.
func TestDuplicateNames(t *testing.T) {
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.EndpointType, "a", "1"))
		err := h.srv.Apply(snapshot.Batch{Groups: map[string]snapshot.Changes{
			"default": {Set: []*xds.Resource{res(xds.EndpointType, "a", "2"), res(xds.EndpointType, "b", "1"), res(xds.EndpointType, "b", "2")}},
		}})
		var bad *xds.ResourceError
		if !errors.Is(err, snapshot.ErrDuplicate) || !errors.As(err, &bad) || bad.Name != "b" {
			t.Errorf("two resources of one name: %v", err)
		}
		s, d := h.sotw(), h.delta()
		s.subscribe(node("s"), xds.EndpointType, "a", "b", "a")
		d.subscribe(node("d"), xds.EndpointType, "a", "a")
		if sr, dr := s.must(), d.must(); len(sr.GetResources()) != 1 || len(dr.GetResources()) != 1 || dr.GetResources()[0].GetVersion() != "1" {
			t.Errorf("on the wire: %v, %v", sr, dr)
		}
	})
}

// Resource locators are names if they carry no parameters, in every request;
// with parameters they are refused rather than taken for names.
func TestLocators(t *testing.T) {
	locator := func(name string) []*discoveryv3.ResourceLocator { return []*discoveryv3.ResourceLocator{{Name: name}} }
	bubble(t, nil, func(h *harness) {
		h.set(res(xds.EndpointType, "a", "1"), res(xds.EndpointType, "b", "1"))
		s, d := h.sotw(), h.delta()
		s.send(&discoveryv3.DiscoveryRequest{Node: node("s"), TypeUrl: xds.EndpointType, ResourceLocators: locator("a")})
		r := s.must()
		s.send(&discoveryv3.DiscoveryRequest{TypeUrl: xds.EndpointType, ResponseNonce: r.GetNonce(), ResourceLocators: locator("b")})
		if r := s.must(); len(r.GetResources()) != 1 {
			t.Errorf("a second locator: %v", r)
		}
		h.set(res(xds.EndpointType, "a", "2"))
		s.silent("after a change of what was replaced")
		d.send(&discoveryv3.DeltaDiscoveryRequest{Node: node("d"), TypeUrl: xds.EndpointType, ResourceLocatorsSubscribe: locator("a")})
		d.ack(d.must())
		d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.EndpointType, ResourceLocatorsSubscribe: locator("b"), ResourceLocatorsUnsubscribe: locator("a")})
		if r := d.must(); namesOf(r) != "[b]" {
			t.Errorf("delta: %v", r)
		}
		bad := []*discoveryv3.ResourceLocator{{Name: "a", DynamicParameters: map[string]string{"k": "v"}}}
		d.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: xds.EndpointType, ResourceLocatorsSubscribe: bad})
		d.endsWith(codes.InvalidArgument)
	})
}

// Proves XS-84: a name that is kept back from a node is reported with the
// hook's code, in both variants, and others get it.
func TestDeniedNames(t *testing.T) {
	deny := func(n *xds.Node, _, name string) error {
		switch {
		case n.ID != "stranger":
			return nil
		case name == "secret":
			return errors.New("not for strangers")
		case name == "later":
			return status.Error(codes.Unavailable, "try again")
		}
		return nil
	}
	bubble(t, []xdsserver.Option{xdsserver.WithDeny(deny)}, func(h *harness) {
		h.set(res(xds.SecretType, "secret", "1"), res(xds.SecretType, "later", "1"), res(xds.SecretType, "open", "1"),
			res(xds.ClusterType, "secret", "1"), res(xds.ClusterType, "open", "1"))
		names := []string{"secret", "later", "open"}
		s, d, friend := h.sotw(), h.delta(), h.delta()
		s.subscribe(node("stranger"), xds.SecretType, names...)
		d.subscribe(node("stranger"), xds.SecretType, names...)
		friend.subscribe(node("friend"), xds.SecretType, names...)
		sr, dr := s.must(), d.must()
		if len(sr.GetResources()) != 1 || errorsOf(sr.GetResourceErrors()) != "[secret:7 later:14]" {
			t.Errorf("SotW: %v", sr)
		}
		if namesOf(dr) != "[open]" || errorsOf(dr.GetResourceErrors()) != "[secret:7 later:14]" {
			t.Errorf("delta: %v", dr)
		}
		if r := friend.must(); len(r.GetResources()) != 3 || len(r.GetResourceErrors()) != 0 {
			t.Errorf("the friend: %v", r)
		}
		w := h.sotw()
		w.subscribe(node("stranger"), xds.ClusterType)
		if r := w.must(); len(r.GetResources()) != 1 {
			t.Errorf("the stranger's wildcard: %v", r)
		}
	})
}
