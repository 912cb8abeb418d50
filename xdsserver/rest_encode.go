package xdsserver

import (
	"fmt"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// restEncoder turns responses into JSON. Resources are turned into it once for
// all who ask for them at about the same time.
type restEncoder struct {
	identifier string
	canary     bool

	mu     sync.Mutex
	cache  map[*xds.Resource][]byte
	size   int
	expiry bool
}

// encode is a DiscoveryResponse in canonical JSON (XR-02).
func (e *restEncoder) encode(r *wire.Response, version string) ([]byte, error) {
	head := &discoveryv3.DiscoveryResponse{
		VersionInfo: version, TypeUrl: r.TypeURL, Nonce: version, Canary: e.canary,
		ControlPlane: &corev3.ControlPlane{Identifier: e.identifier},
	}
	for _, ne := range r.Errors {
		head.ResourceErrors = append(head.ResourceErrors, &discoveryv3.ResourceError{
			ResourceName: &discoveryv3.ResourceName{Name: ne.Name},
			ErrorDetail:  &statuspb.Status{Code: int32(ne.Code), Message: ne.Message},
		})
	}
	b, err := protojson.Marshal(head)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the response has no JSON form: %v", err)
	}
	b = append(b[:len(b)-1], `,"resources":[`...) // the head is never empty: it has a type
	for i, res := range r.Resources {
		if i > 0 {
			b = append(b, ',')
		}
		text, err := e.resource(res)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "%s %q (from %s) has no JSON form: %v; over gRPC it can be had",
				xds.Kind(res.TypeURL()), res.Name(), res.Origin(), err)
		}
		b = append(b, text...)
	}
	return append(b, `]}`...), nil
}

// resource is a resource as an Any in JSON; the bytes are shared.
func (e *restEncoder) resource(r *xds.Resource) ([]byte, error) {
	e.mu.Lock()
	text, ok := e.cache[r]
	e.mu.Unlock()
	if ok {
		return text, nil
	}
	err := hasJSON(r)
	if err == nil {
		text, err = protojson.Marshal(r.SotwAny())
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // its caller says what it is about
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.size+len(text) > bodyCacheBytes {
		return text, nil
	}
	if e.cache == nil {
		e.cache = map[*xds.Resource][]byte{}
	}
	if _, twice := e.cache[r]; !twice {
		e.cache[r] = text
		e.size += len(text)
	}
	if !e.expiry {
		e.expiry = true
		time.AfterFunc(bodyCacheTime, e.clear)
	}
	return text, nil
}

// hasJSON reports that a list collection has more entries than the generated message of
// its type, and so its JSON form, has room for.
func hasJSON(r *xds.Resource) error {
	if r.BodyType() != xds.CollectionType(r.TypeURL()) {
		return nil
	}
	generated, err := r.Message()
	if err != nil {
		return err //nolint:wrapcheck // says it all
	}
	whole, err := messageOf(r)
	if err != nil {
		return err
	}
	if a, b := proto.Size(generated), proto.Size(whole); a != b {
		return fmt.Errorf("%s has room for one entry there", generated.ProtoReflect().Descriptor().FullName())
	}
	return nil
}

func (e *restEncoder) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cache, e.size, e.expiry = nil, 0, false
}
