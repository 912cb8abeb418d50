package xdsserver

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"
	"unsafe"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// Field numbers of DiscoveryResponse and DeltaDiscoveryResponse. Both have the
// version as 1, the resources as 2, the type as 4 and the nonce as 5.
const (
	respVersion, respCanary, respType, respNonce = 1, 3, 4, 5
	sotwControlPlane, sotwErrors                 = 6, 7
	deltaRemoved, deltaControlPlane, deltaErrors = 6, 7, 9
)

// inlineBelow is the size up to which a response is copied into one pooled
// buffer instead of being put together from shared ones.
const inlineBelow = 16 << 10

// encoder turns responses into bytes. The fields of a message may come in any
// order and a message is the concatenation of its fields: what is the
// stream's own goes first, then the resources as they were encoded once.
type encoder struct {
	controlPlane []byte
	canary       bool
	pool         mem.BufferPool
	shared       *bodyCache
	counters     *counters
}

func newEncoder(identifier string, canary bool, c *counters) (*encoder, error) {
	cp, err := proto.Marshal(&corev3.ControlPlane{Identifier: identifier})
	if err != nil {
		return nil, err //nolint:wrapcheck // cannot fail for a valid string
	}
	return &encoder{controlPlane: cp, canary: canary, pool: mem.DefaultBufferPool(), shared: &bodyCache{seed: maphash.MakeSeed()}, counters: c}, nil
}

// encode encodes a response, of a method of v2 if v2 is set.
func (e *encoder) encode(variant wire.Variant, v2 bool, r *wire.Response) mem.BufferSlice {
	if len(r.Aliases)+len(r.Missing) > 0 {
		return mem.BufferSlice{mem.SliceBuffer(named(e.head(make([]byte, 0, e.headSize(r)), variant, v2, r), r))}
	}
	fields := 0
	for _, res := range r.Resources {
		fields += len(resourceField(variant, res))
	}
	head := e.headSize(r)
	if head+fields <= inlineBelow {
		buf := e.pool.Get(head + fields)
		b := e.head((*buf)[:0], variant, v2, r)
		for _, res := range r.Resources {
			b = append(b, resourceField(variant, res)...)
		}
		*buf = b
		return mem.BufferSlice{mem.NewBuffer(buf, e.pool)}
	}
	data, hit := e.shared.body(variant, r.Resources, fields)
	if c := e.counters.of(r.TypeURL, variant); hit {
		c.bodyHits.Add(1)
	} else {
		c.bodyMisses.Add(1)
	}
	return mem.BufferSlice{mem.SliceBuffer(e.head(make([]byte, 0, head), variant, v2, r)), mem.SliceBuffer(data)}
}

func resourceField(variant wire.Variant, r *xds.Resource) []byte {
	if variant == wire.Delta {
		return r.DeltaField()
	}
	return r.SotwField()
}

// headSize is an upper bound for head; resource errors are rare and grow it.
func (e *encoder) headSize(r *wire.Response) int {
	const perField = 8
	n := len(r.Version) + len(r.TypeURL) + len(r.Nonce) + len(e.controlPlane) + 5*perField
	for _, name := range r.Removed {
		n += len(name) + perField
	}
	return n
}

// head is what does not come from the resources. Methods of v2 have neither
// resource errors nor, in delta, the control plane (XV-06).
func (e *encoder) head(b []byte, variant wire.Variant, v2 bool, r *wire.Response) []byte {
	b = stringField(b, respVersion, r.Version)
	b = stringField(b, respType, r.TypeURL)
	b = stringField(b, respNonce, r.Nonce)
	controlPlane, errs := protowire.Number(sotwControlPlane), protowire.Number(sotwErrors)
	if variant == wire.Delta {
		controlPlane, errs = deltaControlPlane, deltaErrors
		for _, name := range r.Removed {
			b = stringField(b, deltaRemoved, name)
		}
	} else if e.canary {
		b = protowire.AppendVarint(protowire.AppendTag(b, respCanary, protowire.VarintType), 1)
	}
	if v2 && variant == wire.Delta {
		return b
	}
	b = protowire.AppendBytes(protowire.AppendTag(b, controlPlane, protowire.BytesType), e.controlPlane)
	if v2 {
		return b
	}
	for _, ne := range r.Errors {
		b = errorField(b, errs, ne)
	}
	return b
}

func stringField(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func errorField(b []byte, n protowire.Number, ne wire.NamedError) []byte {
	m, err := proto.Marshal(&discoveryv3.ResourceError{
		ResourceName: &discoveryv3.ResourceName{Name: ne.Name},
		ErrorDetail:  &statuspb.Status{Code: int32(ne.Code), Message: ne.Message},
	})
	if err != nil {
		return b // a name that is no UTF-8 cannot have been subscribed to
	}
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), m)
}

// bodyCache keeps the encoded resources of large responses for a short time,
// because many streams are sent the same ones.
type bodyCache struct {
	seed maphash.Seed

	mu      sync.Mutex
	entries map[uint64]*body
	size    int
	expiry  bool
	epoch   uint64 // counts changes
}

type body struct {
	once      sync.Once
	variant   wire.Variant
	resources []*xds.Resource
	data      []byte
	size      int
	used      uint64 // the epoch in which it was last wanted
}

const (
	bodyCacheTime  = 5 * time.Second
	bodyCacheBytes = 64 << 20
)

// body is the concatenation of the resources' fields; hit says that it was there
// already.
func (c *bodyCache) body(variant wire.Variant, resources []*xds.Resource, size int) (data []byte, hit bool) {
	b := c.entry(variant, resources, size)
	if b == nil {
		return concatenate(variant, resources, size), false
	}
	hit = true
	b.once.Do(func() {
		hit = false
		b.data = concatenate(variant, resources, size)
	})
	return b.data, hit
}

// entry finds or makes the entry for a list of resources; nil if its place is
// taken by another list or the cache is full.
func (c *bodyCache) entry(variant wire.Variant, resources []*xds.Resource, size int) *body {
	key := c.hash(variant, resources)
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.entries[key]; ok {
		if b.variant == variant && slices.Equal(b.resources, resources) {
			b.used = c.epoch
			return b
		}
		return nil
	}
	if c.size+size > bodyCacheBytes {
		return nil
	}
	if c.entries == nil {
		c.entries = map[uint64]*body{}
	}
	b := &body{variant: variant, resources: resources, size: size, used: c.epoch}
	c.entries[key] = b
	c.size += size
	if !c.expiry {
		c.expiry = true
		time.AfterFunc(bodyCacheTime, c.clear)
	}
	return b
}

// age begins a new epoch: something was changed. What was wanted neither in the
// one that ends nor in the one before is most likely out of date.
func (c *bodyCache) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epoch++
	for key, b := range c.entries {
		if b.used+1 < c.epoch {
			c.size -= b.size
			delete(c.entries, key)
		}
	}
}

func (c *bodyCache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries, c.size, c.expiry = nil, 0, false
}

func (c *bodyCache) hash(variant wire.Variant, resources []*xds.Resource) uint64 {
	if len(resources) == 0 {
		return uint64(variant)
	}
	p := unsafe.Slice((*byte)(unsafe.Pointer(&resources[0])), len(resources)*int(unsafe.Sizeof(resources[0])))
	return maphash.Bytes(c.seed, p) + uint64(variant)
}

func concatenate(variant wire.Variant, resources []*xds.Resource, size int) []byte {
	b := make([]byte, 0, size)
	for _, r := range resources {
		b = append(b, resourceField(variant, r)...)
	}
	return b
}
