package support_test

import (
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	bufferv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/buffer/v3"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/wasm/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/internal/dataplane/support"
	"github.com/xebec-proxy/xebec/validate"
)

func pack(t testing.TB, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// listener has one chain with a connection manager.
func listener(t testing.TB, m *hcmv3.HttpConnectionManager) *listenerv3.Listener {
	t.Helper()
	return &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
		Name: "h", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, m)},
	}}}}}
}

func filter(t testing.TB, name string, optional bool, m proto.Message) *hcmv3.HttpFilter {
	t.Helper()
	return &hcmv3.HttpFilter{Name: name, IsOptional: optional, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, m)}}
}

// Proves BS-15: of optional filters those that are not built are taken out, and
// nothing else changes.
func TestOptionalFiltersAreTakenOut(t *testing.T) {
	buffer := filter(t, "b", true, &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)})
	wasm := filter(t, "w", true, &wasmv3.Wasm{})
	l := listener(t, &hcmv3.HttpConnectionManager{StatPrefix: "x", HttpFilters: []*hcmv3.HttpFilter{wasm, buffer, wasm, buffer, wasm}})
	want := listener(t, &hcmv3.HttpConnectionManager{StatPrefix: "x", HttpFilters: []*hcmv3.HttpFilter{buffer, buffer}})
	report := newCatalog(t, support.Options{}).Check(l, nil, nil)
	if diff := cmp.Diff(want, l, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	const chain = "filter_chains[0].filters[0].typed_config.http_filters"
	if diff := cmp.Diff([]string{chain + "[0]", chain + "[2]", chain + "[4]"}, report.Skipped); diff != "" {
		t.Error(diff)
	}
	for _, f := range report.Findings {
		if f.Severity != validate.Warning || f.Code != support.CodeSkipped {
			t.Errorf("finding %v", f)
		}
	}
}

// What is in order is left as it was, byte for byte.
func TestCheckLeavesTheRest(t *testing.T) {
	l := listener(t, &hcmv3.HttpConnectionManager{StatPrefix: "x", HttpFilters: []*hcmv3.HttpFilter{
		filter(t, "b", false, &bufferv3.Buffer{MaxRequestBytes: wrapperspb.UInt32(1)}),
	}})
	before := proto.CloneOf(l)
	if r := newCatalog(t, support.Options{}).Check(l, nil, nil); len(r.Findings) != 0 {
		t.Errorf("findings %v", r.Findings)
	}
	if diff := cmp.Diff(before, l, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
	if r := newCatalog(t, support.Options{}).Check(nil, nil, nil); len(r.Findings) != 0 {
		t.Errorf("nothing gives %v", r.Findings)
	}
}

// Metadata is kept for whoever knows it, and broken bytes are an error.
func TestAnyOfManyKinds(t *testing.T) {
	c := newCatalog(t, support.Options{})
	known := &corev3.Metadata{TypedFilterMetadata: map[string]*anypb.Any{
		"a": {TypeUrl: "type.googleapis.com/acme.Secret", Value: []byte{0xff}}, "w": pack(t, &wasmv3.Wasm{}),
	}, FilterMetadata: map[string]*structpb.Struct{"x": {}}}
	if r := c.Check(&clusterv3.Cluster{Name: "c", Metadata: known}, nil, nil); len(r.Findings) != 0 {
		t.Errorf("metadata gives %v", r.Findings)
	}
	broken := &clusterv3.Cluster{TransportSocket: &corev3.TransportSocket{Name: "t", ConfigType: &corev3.TransportSocket_TypedConfig{
		TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext", Value: []byte{0xff}},
	}}}
	if r := c.Check(broken, nil, nil); len(r.Findings) != 1 || r.Findings[0].Code != support.CodeUndecodable {
		t.Errorf("broken bytes give %v", r.Findings)
	}
}

func TestTooDeep(t *testing.T) {
	p := &listenerv3.ListenerFilterChainMatchPredicate{}
	for range 300 {
		p = &listenerv3.ListenerFilterChainMatchPredicate{Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: p}}
	}
	r := newCatalog(t, support.Options{}).Check(p, nil, nil)
	if len(r.Findings) != 1 || r.Findings[0].Code != support.CodeTooDeep {
		t.Errorf("%d findings", len(r.Findings))
	}
}

// Every field of every message that is built is either accepted, warned about, or
// refused by its name: none is passed over.
func TestNoFieldIsPassedOver(t *testing.T) {
	c := newCatalog(t, support.Options{})
	checked := 0
	for _, name := range support.Messages(c) {
		mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			t.Fatal(err)
		}
		fields := mt.Descriptor().Fields()
		for i := range fields.Len() {
			fd := fields.Get(i)
			m := mt.New()
			if !fill(m, fd) {
				continue
			}
			checked++
			said := false
			for _, f := range c.Check(m.Interface(), nil, nil).Findings {
				said = said || strings.HasSuffix(f.Message, string(fd.FullName())) && (f.Code == support.CodeNotBuilt || f.Code == support.CodeNoEffect)
			}
			if built := support.Builds(c, fd); built == said {
				t.Errorf("%s: built %v, reported %v", fd.FullName(), built, said)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d fields looked at", checked)
	}
}

// fill sets one field to something.
func fill(m protoreflect.Message, fd protoreflect.FieldDescriptor) bool {
	switch {
	case fd.IsMap():
		v := m.Mutable(fd).Map()
		v.Set(fd.MapKey().Default().MapKey(), v.NewValue())
	case fd.IsList():
		l := m.Mutable(fd).List()
		l.Append(l.NewElement())
	case fd.Message() != nil:
		m.Mutable(fd)
	case fd.Enum() != nil:
		values := fd.Enum().Values()
		m.Set(fd, protoreflect.ValueOfEnum(values.Get(values.Len()-1).Number()))
	case fd.Kind() == protoreflect.StringKind:
		m.Set(fd, protoreflect.ValueOfString("x"))
	case fd.Kind() == protoreflect.BytesKind:
		m.Set(fd, protoreflect.ValueOfBytes([]byte("x")))
	case fd.Kind() == protoreflect.BoolKind:
		m.Set(fd, protoreflect.ValueOfBool(true))
	case fd.Kind() == protoreflect.Uint32Kind:
		m.Set(fd, protoreflect.ValueOfUint32(1))
	case fd.Kind() == protoreflect.Uint64Kind:
		m.Set(fd, protoreflect.ValueOfUint64(1))
	default:
		return false
	}
	return m.Has(fd)
}

// FuzzCheck: no bytes make the check panic, and a second check of what it left
// takes nothing more out.
func FuzzCheck(f *testing.F) {
	seed, err := proto.Marshal(&bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{
		Listeners: []*listenerv3.Listener{listener(f, &hcmv3.HttpConnectionManager{
			HttpFilters: []*hcmv3.HttpFilter{filter(f, "w", true, &wasmv3.Wasm{})},
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
				TypedPerFilterConfig: map[string]*anypb.Any{"w": pack(f, &routev3.FilterConfig{IsOptional: true, Config: pack(f, &wasmv3.Wasm{})})},
			}},
		})},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	c := newCatalog(f, support.Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := &bootstrapv3.Bootstrap{}
		if proto.Unmarshal(data, b) != nil {
			return
		}
		c.Check(b, nil, nil)
		if again := c.Check(b, nil, nil); len(again.Skipped) != 0 {
			t.Fatalf("a second check takes %v out", again.Skipped)
		}
	})
}
