package wire_test

import (
	"maps"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/xds"
)

// client is a model of a client that obeys the protocol. It answers the
// responses of a type in their order and those of different types in any.
type client struct {
	delta bool
	// partly says that it applies what is good of a response that it rejects.
	partly bool
	types  map[string]*clientType
	// outbox is what the client has sent and the server not yet read.
	outbox []*wire.Request
}

// clientType is the client's side of one sub-stream.
type clientType struct {
	typ    xds.Type
	opened bool
	wild   bool
	names  map[string]bool
	// pending are responses not yet answered; nonce and version are those of the
	// last one that was, and the last one that was accepted.
	pending        []*wire.Response
	nonce, version string
	cache          map[string]*xds.Resource
	// early are cluster names missing from what arrived as the first answer to
	// a subscription, by resource (XS-71).
	early map[string]map[string]bool
}

func newClient(delta bool) *client {
	return &client{delta: delta, types: map[string]*clientType{}}
}

func (c *client) of(typeURL string) *clientType {
	ct := c.types[typeURL]
	if ct == nil {
		t, _ := xds.LookupType(typeURL)
		ct = &clientType{typ: t, names: map[string]bool{}, cache: map[string]*xds.Resource{}, early: map[string]map[string]bool{}}
		c.types[typeURL] = ct
	}
	return ct
}

func (ct *clientType) covers(r *xds.Resource) bool {
	return ct.wild && !r.Indirect() || ct.names[r.Name()] || slices.ContainsFunc(r.Aliases(), func(a string) bool { return ct.names[a] })
}

// subscribe changes what the client wants and sends the request for it.
func (c *client) subscribe(typeURL string, wild bool, names map[string]bool) {
	ct := c.of(typeURL)
	r := &wire.Request{TypeURL: typeURL}
	if c.delta {
		r.Subscribe, r.Unsubscribe = ct.difference(wild, names)
		if !ct.opened && len(r.Subscribe) == 0 {
			return
		}
	}
	ct.wild, ct.names, ct.opened = wild, names, true
	if c.delta {
		maps.DeleteFunc(ct.cache, func(_ string, r *xds.Resource) bool { return !ct.covers(r) })
	} else {
		// Nothing is dropped until the server takes the request: if it and one that
		// takes it back both cross a response, the server never learns (XS-21).
		r.Names, r.Nonce, r.Version = ct.list(), ct.nonce, ct.version
	}
	c.outbox = append(c.outbox, r)
}

func (ct *clientType) list() []string {
	l := slices.Sorted(maps.Keys(ct.names))
	if ct.wild {
		l = append(l, "*")
	}
	return l
}

func (ct *clientType) difference(wild bool, names map[string]bool) (plus, minus []string) {
	for n := range names {
		if !ct.names[n] {
			plus = append(plus, n)
		}
	}
	for n := range ct.names {
		if !names[n] {
			minus = append(minus, n)
		}
	}
	switch {
	case wild && !ct.wild:
		plus = append(plus, "*")
	case !wild && ct.wild:
		minus = append(minus, "*")
	}
	slices.Sort(plus)
	slices.Sort(minus)
	return plus, minus
}

// answer deals with the oldest unanswered response of a type: it is rejected if
// anything in it is bad, and applied as far as the client does that.
func (c *client) answer(typeURL string) bool {
	ct := c.types[typeURL]
	if ct == nil || len(ct.pending) == 0 {
		return false
	}
	resp := ct.pending[0]
	ct.pending = ct.pending[1:]
	ct.nonce = resp.Nonce
	r := &wire.Request{TypeURL: typeURL, Nonce: resp.Nonce, Version: ct.version}
	if bad := badNames(resp); len(bad) > 0 {
		r.Error = &wire.Status{Code: wire.InvalidArgument, Message: strings.Join(bad, " ") + " bad"}
		if c.partly {
			c.apply(ct, resp)
		}
	} else {
		c.apply(ct, resp)
		ct.version = resp.Version
		r.Version = resp.Version
	}
	if !c.delta {
		r.Names = ct.list()
	}
	c.outbox = append(c.outbox, r)
	return true
}

func isBad(r *xds.Resource) bool { return strings.HasPrefix(r.Version(), "bad") }

func badNames(resp *wire.Response) (names []string) {
	for _, r := range resp.Resources {
		if isBad(r) {
			names = append(names, r.Name())
		}
	}
	return names
}

// apply takes over what is good of a response. What is bad leaves a resource as
// it was.
func (c *client) apply(ct *clientType, resp *wire.Response) {
	before := maps.Clone(ct.cache)
	if !c.delta && ct.typ.FullState {
		clear(ct.cache)
	}
	for _, r := range resp.Resources {
		delete(ct.cache, r.Name()) // it may have lost the alias it was wanted by
		if isBad(r) {
			r = before[r.Name()]
		}
		if r != nil && ct.covers(r) {
			ct.cache[r.Name()] = r
		}
	}
	for _, n := range resp.Removed {
		delete(ct.cache, n)
		maps.DeleteFunc(ct.cache, func(_ string, r *xds.Resource) bool {
			return slices.Contains(r.Aliases(), n) && !ct.wild && !ct.names[r.Name()]
		})
	}
}
