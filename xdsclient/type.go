package xdsclient

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	runtimev3 "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xds"
)

// Type describes a resource type that can be watched (GC-57, XC-42).
// [Listeners] to [VirtualHosts] are the protocol's own, [Proto] makes one for
// any other protobuf message, and T need not be a message: a program that
// decodes into its own structures sets Decode.
//
// One source holds one decoding of a type: two watches of the same type URL
// with different T are an error for the second.
type Type[T any] struct {
	xds.Type
	// Decode reads a resource. It is called once for each content, and not for a
	// repetition of the same bytes, unless that follows something that was refused:
	// what is good may depend on what else there is. Its error rejects the resource, and is told
	// to the server. The body is read-only and must not be kept.
	Decode func(name string, body []byte) (T, error)
	// Validate looks at what Decode has made; its error rejects the resource.
	// The version is the resource's, or in the state-of-the-world variant the
	// response's.
	// The name is that by which it is asked for: of what a redirect or a list collection
	// has led to, the one that watchers are told; Validate is called once for each such
	// name. nil accepts everything.
	//
	// Decode and Validate are called one at a time and must not call the source.
	Validate func(name, version string, value T) error
	// ValidateAll looks at what a response would change as a whole, before it is
	// accepted; its error rejects all of it. It is called as Validate is, after
	// it, and not for a response that changes nothing. nil accepts everything.
	ValidateAll func(version string, changes []Candidate) error
	// Leaving is told the names of what a response removes, before anything in it is
	// validated, for programs in which what is new may take the place of what goes. It
	// is called as Validate is. nil is told nothing.
	Leaving func(names []string)
	// NameOf reads a resource's name in the state-of-the-world variant, which
	// does not have it beside the resource. nil takes the first field of the
	// message, which is the name in all types of the protocol.
	NameOf func(body []byte) (string, error)
	// Transient says that the source keeps a resource's bytes only, and lets go of
	// its value once Validate and the present watchers have seen it: for programs
	// that make something else of it. A decoded message is often ten times as
	// large as its bytes. Whoever watches later is told a value that Decode has
	// made again. false keeps the value, and shares it among all watchers. Default
	// false; [Proto] and with it the protocol's own types set it.
	Transient bool
	// Direct refuses redirects (a NACK says so), list collections and alternatives,
	// for programs that make something of a resource by its name while it is
	// validated. false follows them.
	Direct bool
}

// Proto is a type whose resources are protobuf messages of type T. Fields that
// T does not know are ignored. The source does not keep the messages: see
// Transient.
func Proto[T proto.Message](t xds.Type) Type[T] {
	return Type[T]{Type: t, Transient: true, Decode: func(_ string, body []byte) (T, error) {
		var none T
		m, ok := none.ProtoReflect().New().Interface().(T)
		if !ok {
			return none, fmt.Errorf("%T cannot be made anew", none)
		}
		if err := proto.Unmarshal(body, m); err != nil {
			return none, fmt.Errorf("reading a %s: %w", m.ProtoReflect().Descriptor().FullName(), err)
		}
		return m, nil
	}}
}

// builtin is a type the protocol defines.
func builtin[T proto.Message](url string) Type[T] {
	t, _ := xds.LookupType(url)
	return Proto[T](t)
}

// Listeners is LDS. Names are those of listeners, [Wildcard] for all.
func Listeners() Type[*listenerv3.Listener] { return builtin[*listenerv3.Listener](xds.ListenerType) }

// Routes is RDS.
func Routes() Type[*routev3.RouteConfiguration] {
	return builtin[*routev3.RouteConfiguration](xds.RouteType)
}

// ScopedRoutes is SRDS. Names are those of scopes, [Wildcard] for all.
func ScopedRoutes() Type[*routev3.ScopedRouteConfiguration] {
	return builtin[*routev3.ScopedRouteConfiguration](xds.ScopedRouteType)
}

// VirtualHosts is VHDS: delta only, names are "route configuration/host".
func VirtualHosts() Type[*routev3.VirtualHost] {
	return builtin[*routev3.VirtualHost](xds.VirtualHostType)
}

// Clusters is CDS. Names are those of clusters, [Wildcard] for all.
func Clusters() Type[*clusterv3.Cluster] { return builtin[*clusterv3.Cluster](xds.ClusterType) }

// Endpoints is EDS. Names are those of clusters, or their service_name.
func Endpoints() Type[*endpointv3.ClusterLoadAssignment] {
	return builtin[*endpointv3.ClusterLoadAssignment](xds.EndpointType)
}

// LocalityEndpoints is LEDS: delta only, names are glob collections.
func LocalityEndpoints() Type[*endpointv3.LbEndpoint] {
	return builtin[*endpointv3.LbEndpoint](xds.LocalityEndpointType)
}

// Secrets is SDS. A [Source] does not write them to its store.
func Secrets() Type[*tlsv3.Secret] { return builtin[*tlsv3.Secret](xds.SecretType) }

// Runtimes is RTDS. Names are those of layers.
func Runtimes() Type[*runtimev3.Runtime] { return builtin[*runtimev3.Runtime](xds.RuntimeType) }

// ExtensionConfigs is ECDS. Names are those of filter configurations.
func ExtensionConfigs() Type[*corev3.TypedExtensionConfig] {
	return builtin[*corev3.TypedExtensionConfig](xds.ExtensionConfigType)
}

// Wildcard is the name that stands for all resources of a type that the server
// has for this node.
const Wildcard = "*"

// decoder is a Type without its parameter.
type decoder struct {
	xds.Type
	of any // a nil *T, to tell types apart
	// as are the names that it is validated by.
	decode func(name, version string, body []byte, as []string) (any, error)
	// read is decode without a look at what is wrong with the value.
	read   func(name string, body []byte) (any, error)
	brief  bool // the value is not kept
	direct bool
	nameOf func(body []byte) (string, error)
	all    func(version string, changes []Candidate) error
	// leaving is told what is going to be removed; may be nil.
	leaving func(names []string)
}

var errNoDecode = errors.New("the type has no Decode function")

// erase hides the type parameter.
func (t Type[T]) erase() decoder {
	d := decoder{Type: t.Type, of: (*T)(nil), nameOf: t.NameOf, all: t.ValidateAll, brief: t.Transient, direct: t.Direct, leaving: t.Leaving}
	d.read = func(name string, body []byte) (any, error) { return t.Decode(name, body) }
	d.decode = func(name, version string, body []byte, as []string) (any, error) {
		if t.Decode == nil {
			return nil, errNoDecode
		}
		v, err := t.Decode(name, body)
		if err == nil && t.Validate != nil {
			err = t.validate(as, version, v)
		}
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	return d
}

func (t Type[T]) validate(as []string, version string, v T) error {
	if len(as) == 1 {
		return t.Validate(as[0], version, v)
	}
	var errs []error
	for _, name := range as {
		errs = append(errs, t.Validate(name, version, v))
	}
	return errors.Join(errs...)
}
