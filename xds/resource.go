package xds

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Key identifies a resource within a group.
type Key struct {
	Type, Name string
}

// Reference is a resource that another one needs: the cluster a route names,
// the assignment of a cluster, the secret of a TLS context.
type Reference struct {
	Key
	// Path is the field path of the reference inside the referring resource.
	Path string
	// Optional says that the resource is usable while the target is missing
	// (a route's cluster, for instance, is required only by convention).
	Optional bool
}

// Resource is one immutable resource, encoded once for every stream and every
// variant that will carry it. Safe for concurrent use.
type Resource struct {
	typeURL, name, version string
	bodyType               string // differs from typeURL for what stands for others
	aliases                []string
	refs                   []Reference
	origin                 Position
	updated                time.Time
	hash                   [2]uint64
	hosts                  *Hosts

	// field is the resource as field 2 of a DeltaDiscoveryResponse. Its tail
	// from sotw on, the Any, is also the resource as field 2 of a
	// DiscoveryResponse: both fields, and Resource.resource, have number 2. Its
	// tail from body on is the message itself.
	field      []byte
	sotw, body int
	// wrapped is field 2 of a DiscoveryResponse in a Resource message, for what its
	// body alone does not name; else nil. Its last bytes, wrapping of them, are the
	// Resource message.
	wrapped  []byte
	wrapping int
}

// Option sets an optional property of a Resource under construction.
type Option func(*Resource)

// WithVersion sets the version. Without it the version is derived from the
// content, so that replicas and restarts agree (XS-16).
func WithVersion(v string) Option { return func(r *Resource) { r.version = v } }

// WithAliases sets further names under which the resource can be subscribed
// to (XS-65).
func WithAliases(a ...string) Option { return func(r *Resource) { r.aliases = a } }

// WithBodyType sets the type URL of a message that is not one of the resource's
// type but stands for such: [LocatorType] of a redirect, [CollectionType] of a
// list collection.
func WithBodyType(url string) Option { return func(r *Resource) { r.bodyType = url } }

// WithReferences sets what the resource refers to.
func WithReferences(refs []Reference) Option { return func(r *Resource) { r.refs = refs } }

// WithOrigin sets the place the resource was loaded from.
func WithOrigin(p Position) Option { return func(r *Resource) { r.origin = p } }

// WithUpdated sets the time at which the content came to be.
func WithUpdated(t time.Time) Option { return func(r *Resource) { r.updated = t } }

// NewResource builds a resource from an encoded message. The body is copied.
func NewResource(typeURL, name string, body []byte, opts ...Option) *Resource {
	r := &Resource{typeURL: typeURL, bodyType: typeURL, name: name}
	for _, o := range opts {
		o(r)
	}
	if !r.Indirect() {
		r.hosts = hostsOf(typeURL, body)
	}
	r.encode(body)
	return r
}

// Marshal encodes a message deterministically and builds its resource.
func Marshal(name string, m proto.Message, opts ...Option) (*Resource, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encoding %s %q: %w", m.ProtoReflect().Descriptor().FullName(), name, err)
	}
	return NewResource(TypePrefix+string(m.ProtoReflect().Descriptor().FullName()), name, b, opts...), nil
}

// TypeURL is the resource's full type URL.
func (r *Resource) TypeURL() string { return r.typeURL }

// BodyType is the type URL of the message: the resource's own, or what
// [WithBodyType] has set.
func (r *Resource) BodyType() string { return r.bodyType }

// Indirect reports whether the message only says where resources of the type are,
// or holds some: a redirect or a list collection (XN-08, XN-10). Those who ask for
// everything of a type are not sent it, for many know nothing of either; it is
// asked for by its name, and a redirect also by a glob collection.
func (r *Resource) Indirect() bool { return r.bodyType != r.typeURL }

// Name is the resource's name.
func (r *Resource) Name() string { return r.name }

// Key is the resource's type URL and name.
func (r *Resource) Key() Key { return Key{r.typeURL, r.name} }

// Version changes whenever the content does.
func (r *Resource) Version() string { return r.version }

// Aliases are further names of the resource. Read-only.
func (r *Resource) Aliases() []string { return r.aliases }

// References is what the resource refers to. Read-only.
func (r *Resource) References() []Reference { return r.refs }

// Origin is where the resource was loaded from.
func (r *Resource) Origin() Position { return r.origin }

// Updated is when the content came to be; zero if unknown.
func (r *Resource) Updated() time.Time { return r.updated }

// Hash identifies type, name, version and content. Hashes of distinct
// resources can be added up, component by component, to identify a set.
func (r *Resource) Hash() [2]uint64 { return r.hash }

// DeltaField is the resource as an encoded field of a DeltaDiscoveryResponse,
// tag and length included. Read-only.
func (r *Resource) DeltaField() []byte { return r.field }

// SotwField is the resource as an encoded field of a DiscoveryResponse, tag
// and length included. It is wrapped in a Resource message only if its body does
// not tell its name: a redirect, a list collection, and what has a structured name
// and another one in its body (XN-09). Read-only.
func (r *Resource) SotwField() []byte {
	if r.wrapped != nil {
		return r.wrapped
	}
	return r.field[r.sotw:]
}

// Body is the encoded message. Read-only.
func (r *Resource) Body() []byte { return r.field[r.body:] }

// SotwAny is what a DiscoveryResponse holds of the resource, sharing its bytes; see
// [Resource.SotwField].
func (r *Resource) SotwAny() *anypb.Any {
	if r.wrapped != nil {
		return &anypb.Any{TypeUrl: wrapperType, Value: r.wrapped[len(r.wrapped)-r.wrapping:]}
	}
	return r.Any()
}

// Any is the resource's message in a new Any, sharing its bytes.
func (r *Resource) Any() *anypb.Any { return &anypb.Any{TypeUrl: r.bodyType, Value: r.Body()} }

// Message decodes the resource into a new message. Its type must be linked in.
func (r *Resource) Message() (proto.Message, error) {
	m, err := r.Any().UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("decoding %s %q: %w", Kind(r.typeURL), r.name, err)
	}
	return m, nil
}

// Equal reports whether two resources would look the same to every client.
func (r *Resource) Equal(o *Resource) bool {
	if r == o {
		return true
	}
	return r != nil && o != nil && r.hash == o.hash
}

// Field numbers of envoy.service.discovery.v3.Resource and google.protobuf.Any.
const (
	fieldResourceVersion = 1
	fieldResourceBody    = 2
	fieldResourceName    = 3
	fieldResourceAliases = 4
	fieldAnyTypeURL      = 1
	fieldAnyValue        = 2
	fieldResponseItem    = 2
)

// wrapperType is the type URL of envoy.service.discovery.v3.Resource.
const wrapperType = TypePrefix + "envoy.service.discovery.v3.Resource"

func (r *Resource) encode(body []byte) {
	r.hashContent(body)
	if r.version == "" {
		r.version = strconv.FormatUint(r.hash[0], 16)
	}
	anyLen := bytesField(fieldAnyTypeURL, len(r.bodyType)) + bytesField(fieldAnyValue, len(body))
	n := bytesField(fieldResourceName, len(r.name)) + bytesField(fieldResourceVersion, len(r.version)) +
		bytesField(fieldResourceBody, anyLen)
	for _, a := range r.aliases {
		n += bytesField(fieldResourceAliases, len(a))
	}
	b := make([]byte, 0, bytesField(fieldResponseItem, n))
	b = protowire.AppendTag(b, fieldResponseItem, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendString(b, fieldResourceName, r.name)
	b = appendString(b, fieldResourceVersion, r.version)
	for _, a := range r.aliases {
		b = appendString(b, fieldResourceAliases, a)
	}
	r.sotw = len(b)
	b = protowire.AppendTag(b, fieldResourceBody, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(anyLen))
	b = appendString(b, fieldAnyTypeURL, r.bodyType)
	b = protowire.AppendTag(b, fieldAnyValue, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(len(body)))
	r.body = len(b)
	b = append(b, body...)
	r.field = b
	if r.Indirect() || IsURN(r.name) && r.name != ownName(body) {
		r.wrap(b[len(b)-n:])
	}
}

// wrap encodes the resource, given as a Resource message, for a DiscoveryResponse.
func (r *Resource) wrap(message []byte) {
	n := bytesField(fieldAnyTypeURL, len(wrapperType)) + bytesField(fieldAnyValue, len(message))
	b := make([]byte, 0, bytesField(fieldResponseItem, n))
	b = protowire.AppendTag(b, fieldResponseItem, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(n))
	b = appendString(b, fieldAnyTypeURL, wrapperType)
	b = protowire.AppendTag(b, fieldAnyValue, protowire.BytesType)
	r.wrapped, r.wrapping = protowire.AppendBytes(b, message), len(message)
}

// HasOwnName reports whether the resource's message tells its name.
func (r *Resource) HasOwnName() bool { return !r.Indirect() && r.name == ownName(r.Body()) }

// ownName is the name in a message, which is the first field of all resources that
// have one; empty if it is not there.
func ownName(body []byte) string {
	num, typ, n := protowire.ConsumeTag(body)
	if n < 0 || num != 1 || typ != protowire.BytesType {
		return ""
	}
	name, n := protowire.ConsumeBytes(body[n:])
	if n < 0 {
		return ""
	}
	return string(name)
}

func (r *Resource) hashContent(body []byte) {
	var d xxhash.Digest
	for lane := range r.hash {
		d.ResetWithSeed(uint64(lane))
		for _, s := range append([]string{r.typeURL, r.name, r.version}, r.aliases...) {
			_, _ = d.WriteString(s)
			_, _ = d.Write([]byte{0})
		}
		if r.Indirect() {
			_, _ = d.WriteString(r.bodyType)
			_, _ = d.Write([]byte{1})
		}
		_, _ = d.Write(body)
		r.hash[lane] = d.Sum64()
	}
}

func bytesField(n protowire.Number, size int) int {
	return protowire.SizeTag(n) + protowire.SizeBytes(size)
}

func appendString(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}
