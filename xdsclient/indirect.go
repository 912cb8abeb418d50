package xdsclient

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// list is a list collection as it was received (XN-08).
type list struct{ entries []*listed }

// listed is one entry of a list collection: a locator, or a resource.
type listed struct {
	// name is what watchers of the collection know it by.
	name  string
	label string // by which an entry directive finds it
	to    *xds.Locator
	// u is the last good version of an inline entry, nil if there was none; err is
	// why that is not what was received last, which is raw.
	u   *update
	err error
	raw []byte
	// fresh says that it was looked at when it came.
	fresh bool
}

func (l *list) find(label string) *listed {
	for _, e := range l.entries {
		if e.label == label && e.to == nil {
			return e
		}
	}
	return nil
}

// entriesOf are those of a list that Check has made.
func entriesOf(v any) []*listed {
	if l, ok := v.(*list); ok {
		return l.entries
	}
	return nil
}

// byName is every entry by its name.
func (l *list) byName() map[string]*listed {
	m := make(map[string]*listed, len(l.entries))
	for _, e := range l.entries {
		m[e.name] = e
	}
	return m
}

var errDirect = errors.New("redirects, list collections and alternatives are known, but not built into this program")

// indirect reads what stands for resources: a *xds.Locator, or a *list with a
// *client.Flaw for entries that are bad.
func (c checker) indirect(t *typeState, name, version string, form client.Form, body []byte) (any, error) {
	switch {
	case t.direct:
		return nil, errDirect
	case form == client.Redirect:
		return redirectOf(t.URL, name, body)
	}
	var before map[string]*listed
	if e := t.entries[name]; e != nil && e.u != nil && e.u.list != nil {
		before = e.u.list.byName()
	}
	return c.listOf(t, name, version, body, before)
}

func redirectOf(typeURL, name string, body []byte) (*xds.Locator, error) {
	var m xdscorev3.ResourceLocator
	if err := proto.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("reading a redirect: %w", err)
	}
	l, err := xds.LocatorFromProto(&m)
	if err == nil {
		err = xds.CheckRedirect(typeURL, name, l)
	}
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	return &l, nil
}

// listOf reads a list collection. Inline entries are looked at as resources are, each
// once for each content; what is bad of one keeps the version before it.
func (c checker) listOf(t *typeState, name, version string, body []byte, before map[string]*listed) (*list, error) {
	entries, err := xds.ParseCollection(body)
	if err != nil {
		return nil, err //nolint:wrapcheck // says it all
	}
	l := &list{entries: make([]*listed, 0, len(entries))}
	seen := make(map[string]struct{}, len(entries))
	for i, e := range entries {
		if err := e.Check(t.URL); err != nil {
			return nil, fmt.Errorf("entries[%d]: %w", i, err)
		}
		n := &listed{name: t.entryName(name, i, &e), label: e.Name, to: e.Locator, raw: e.Body}
		if _, twice := seen[n.name]; twice {
			return nil, fmt.Errorf("entries[%d]: %s is listed twice", i, n.name)
		}
		seen[n.name] = struct{}{}
		l.entries = append(l.entries, n)
	}
	var flaws []error
	for i, e := range entries {
		n := l.entries[i]
		if n.to != nil {
			continue
		}
		if e.Version == "" {
			e.Version = version
		}
		if c.readEntry(t, name, n, &e, before[n.name]); n.err != nil {
			flaws = append(flaws, fmt.Errorf("entries[%d]: %s: %w", i, n.name, n.err))
		}
	}
	if len(flaws) > 0 {
		return l, &client.Flaw{Err: errors.Join(flaws...)}
	}
	return l, nil
}

// readEntry decodes an inline entry, unless it is as it was.
func (c checker) readEntry(t *typeState, collection string, n *listed, e *xds.CollectionEntry, before *listed) {
	if before != nil && before.to == nil {
		n.u = before.u
		if bytes.Equal(before.raw, e.Body) && (before.u != nil || before.err != nil) {
			n.err = before.err
			if n.err == nil {
				again := *before.u
				again.version = e.Version
				n.u = &again
			}
			return
		}
	}
	v, err := t.decode(n.name, e.Version, e.Body, t.knownByEntry(collection, n))
	if n.fresh = true; err != nil {
		n.err = err
		c.l.s.count(StatUpdatesInvalid, c.l, t.URL, 1)
		return
	}
	n.u = &update{name: n.name, version: e.Version, server: c.l.srv.Name, value: v, body: e.Body}
	c.l.s.count(StatUpdatesValid, c.l, t.URL, 1)
}

// entryName is what an entry is known by: its locator, which is that of the
// collection with the entry's name for an inline one. One without a name has the
// resource's own in its place, or its number.
func (t *typeState) entryName(collection string, i int, e *xds.CollectionEntry) string {
	switch {
	case e.Locator != nil:
		return xds.Locator{URN: e.Locator.URN, Entry: e.Locator.Entry}.String()
	case e.Name != "":
		return collection + "#entry=" + e.Name
	}
	nameOf := t.nameOf
	if nameOf == nil {
		nameOf = message.Name
	}
	if own, err := nameOf(e.Body); err == nil && own != "" {
		return collection + "#" + own
	}
	return collection + "#" + strconv.Itoa(i)
}

// brief is what is kept of a list of a type whose values are not.
func (l *list) brief() *list {
	kept := &list{entries: make([]*listed, 0, len(l.entries))}
	for _, e := range l.entries {
		n := *e
		n.fresh = false
		if e.u != nil {
			u := *e.u
			u.value = nil
			n.u = &u
		}
		kept.entries = append(kept.entries, &n)
	}
	return kept
}

// formOf is the form of a message that was stored.
func formOf(typeURL, bodyType string) (client.Form, error) {
	switch bodyType {
	case "", typeURL:
		return client.Plain, nil
	case xds.LocatorType:
		return client.Redirect, nil
	case xds.CollectionType(typeURL):
		return client.List, nil
	}
	return client.Plain, fmt.Errorf("type %q for a %s", bodyType, xds.Kind(typeURL))
}

// bodyType is the type URL of what an update holds.
func (u *update) bodyType(typeURL string) string {
	switch u.form {
	case client.Redirect:
		return xds.LocatorType
	case client.List:
		return xds.CollectionType(typeURL)
	case client.Plain:
	}
	return typeURL
}

// storedType is bodyType as it is stored.
func (u *update) storedType(typeURL string) string {
	if u.form == client.Plain {
		return ""
	}
	return u.bodyType(typeURL)
}

// fill puts what Check has made into an update.
func (u *update) fill(form client.Form, v any) *update {
	u.form = form
	switch form {
	case client.Redirect:
		u.to, _ = v.(*xds.Locator)
	case client.List:
		u.list, _ = v.(*list)
	case client.Plain:
		u.value = v
	}
	return u
}
