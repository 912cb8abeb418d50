package xdsserver

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// forms keeps another form of resources, for the clients that need it: each is
// made once for each content and kept for as long as the resource is.
type forms struct {
	convert func(*xds.Resource) (*xds.Resource, error)
	// failed, if set, is called with each content that has no such form, once.
	failed func(*xds.Resource, error)

	mu   sync.Mutex
	made map[weak.Pointer[xds.Resource]]*form
}

// form is what a conversion has led to.
type form struct {
	once sync.Once
	res  *xds.Resource // nil if that is the resource itself, which is not to be kept
	err  error
}

// list converts what a response holds, and leaves out what cannot be converted: it
// was denied to the client before, as far as it is in a snapshot.
func (c *forms) list(resources []*xds.Resource) []*xds.Resource {
	out := make([]*xds.Resource, 0, len(resources))
	for _, r := range resources {
		if to, err := c.get(r); err == nil {
			out = append(out, to)
		}
	}
	return out
}

// get converts a resource once. Others who ask for it meanwhile wait.
func (c *forms) get(r *xds.Resource) (*xds.Resource, error) {
	to := c.entry(r)
	to.once.Do(func() {
		if to.res, to.err = c.convert(r); to.err != nil && c.failed != nil {
			c.failed(r, to.err)
		}
		if to.res == r {
			to.res = nil
		}
	})
	if to.res == nil && to.err == nil {
		return r, nil
	}
	return to.res, to.err
}

func (c *forms) entry(r *xds.Resource) *form {
	key := weak.Make(r)
	c.mu.Lock()
	defer c.mu.Unlock()
	to, ok := c.made[key]
	if ok {
		return to
	}
	if c.made == nil {
		c.made = map[weak.Pointer[xds.Resource]]*form{}
	}
	to = &form{}
	c.made[key] = to
	runtime.AddCleanup(r, c.forget, key)
	return to
}

func (c *forms) forget(key weak.Pointer[xds.Resource]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, key)
}

// refusal says why a client may not have a resource because it cannot be
// converted; why begins the message.
func (c *forms) refusal(r *xds.Resource, why string) *wire.Status {
	if _, err := c.get(r); err != nil {
		return &wire.Status{Code: wire.Internal, Message: fmt.Sprintf("%s: %v", why, err)}
	}
	return nil
}

// refuses is refusal for what a stream's snapshot has by a name.
func (c *forms) refuses(view func() *snapshot.Snapshot, why string) func(typeURL, name string) *wire.Status {
	return func(typeURL, name string) *wire.Status {
		if v := view(); v != nil {
			if r := v.Resolve(typeURL, name); r != nil {
				return c.refusal(r, why)
			}
		}
		return nil
	}
}

// typedStructs is the form for clients that need TypedStruct (XS-82).
func typedStructs(convert ConvertFunc) *forms {
	if convert == nil {
		return nil
	}
	return &forms{convert: func(r *xds.Resource) (*xds.Resource, error) {
		to, err := convert(r)
		if err == nil && (to == nil || to.Key() != r.Key()) {
			return nil, errNoResult
		}
		return to, err
	}}
}

var errNoResult = errors.New("the converter gave no resource of the same type and name")

const needsStructs = "the client needs TypedStruct"

// noStructs denies everything to clients that need TypedStruct.
func noStructs(_, _ string) *wire.Status {
	return &wire.Status{Code: wire.Internal, Message: needsStructs + " and this server has no converter for it"}
}
