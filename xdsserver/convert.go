package xdsserver

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// converted keeps the rewritten form of resources for clients that need
// TypedStruct (XS-82).
type converted struct {
	convert ConvertFunc

	mu    sync.Mutex
	cache map[*xds.Resource]*conversion
}

type conversion struct {
	once sync.Once
	res  *xds.Resource
	err  error
}

const convertedAtMost = 10_000

var errNoResult = errors.New("the converter gave no resource of the same type and name")

// list converts what a response holds. Resources that cannot be converted are
// not in it, because deny has refused them.
func (c *converted) list(resources []*xds.Resource) []*xds.Resource {
	if c.convert == nil {
		return resources
	}
	out := slices.Clone(resources)
	for i, r := range out {
		if to := c.get(r); to.err == nil {
			out[i] = to.res
		}
	}
	return out
}

// deny is what a stream's client may not have because it cannot be converted.
func (c *converted) deny(view func() *snapshot.Snapshot) func(typeURL, name string) *wire.Status {
	if c.convert == nil {
		return func(_, _ string) *wire.Status {
			return &wire.Status{Code: wire.Internal, Message: "the client needs TypedStruct and this server has no converter for it"}
		}
	}
	return func(typeURL, name string) *wire.Status {
		v := view()
		if v == nil {
			return nil
		}
		r := v.Set(typeURL).Resolve(name)
		if r == nil {
			return nil
		}
		if to := c.get(r); to.err != nil {
			return &wire.Status{Code: wire.Internal, Message: fmt.Sprintf("the client needs TypedStruct: %v", to.err)}
		}
		return nil
	}
}

// get converts a resource once. Others who ask for it meanwhile wait.
func (c *converted) get(r *xds.Resource) *conversion {
	to := c.entry(r)
	to.once.Do(func() {
		to.res, to.err = c.convert(r)
		if to.err == nil && (to.res == nil || to.res.Key() != r.Key()) {
			to.err = errNoResult
		}
	})
	return to
}

func (c *converted) entry(r *xds.Resource) *conversion {
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := c.cache[r]
	if ok {
		return to
	}
	if c.cache == nil || len(c.cache) >= convertedAtMost {
		c.cache = map[*xds.Resource]*conversion{}
	}
	to = &conversion{}
	c.cache[r] = to
	return to
}
