package route

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/xebec-proxy/xebec/filter/header"
)

// ScopeKeyBuilder makes the key by which a request finds its scope (RT-11;
// HttpConnectionManager.scoped_routes.scope_key_builder). It is immutable and
// safe for concurrent use.
type ScopeKeyBuilder struct{ fragments []keyFragment }

// keyFragment takes a part of a header's value.
type keyFragment struct {
	name    string
	id      header.ID
	between string // element_separator; "": the value is one element
	index   int
	// key and equals choose an element by its key, unless equals is empty.
	key, equals string
}

// NewScopeKeyBuilder reads a scope_key_builder. The error names the field.
func NewScopeKeyBuilder(c *hcmv3.ScopedRoutes_ScopeKeyBuilder) (*ScopeKeyBuilder, error) {
	b := &ScopeKeyBuilder{}
	var errs []error
	for i, f := range c.GetFragments() {
		k, err := newKeyFragment(f.GetHeaderValueExtractor())
		errs = append(errs, at(fmt.Sprintf("fragments[%d].header_value_extractor", i), err))
		b.fragments = append(b.fragments, k)
	}
	if len(b.fragments) == 0 {
		errs = append(errs, errors.New("fragments: at least one is needed"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, nil
}

func newKeyFragment(x *hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor) (keyFragment, error) {
	name := headerName(x.GetName())
	k := keyFragment{name: name, id: header.KnownID(name), between: x.GetElementSeparator()}
	if name == "" {
		return k, errors.New("name: the header has no name")
	}
	switch e := x.GetExtractType().(type) {
	case *hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index:
		if k.index = int(e.Index); k.index > 0 && k.between == "" {
			return k, errors.New("index: Index > 0 for empty string element separator.") //nolint:revive,staticcheck // Envoy's text
		}
	case *hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Element:
		k.key, k.equals = e.Element.GetKey(), e.Element.GetSeparator()
		if k.key == "" || k.equals == "" {
			return k, errors.New("element: key and separator are needed")
		}
	default:
		return k, errors.New("extract_type: HeaderValueExtractor extract_type not set.") //nolint:revive,staticcheck // Envoy's text
	}
	return k, nil
}

// Append appends the key of a request's head to dst, which it may return grown;
// ok is false if a fragment is missing, so that the request is of no scope. It
// does not allocate if dst has room.
func (b *ScopeKeyBuilder) Append(dst []byte, h *header.Map) (key []byte, ok bool) {
	for i := range b.fragments {
		v, found := b.fragments[i].of(h)
		if !found {
			return dst, false
		}
		dst = appendFragment(dst, v)
	}
	return dst, true
}

// of is the fragment of a request. Of a header that is there more than once the
// first counts, since a client may have added others.
func (k *keyFragment) of(h *header.Map) (string, bool) {
	v, ok := h.LookupID(k.id)
	if k.id == header.Other {
		v, ok = h.Lookup(k.name)
	}
	if !ok {
		return "", false
	}
	for i := 0; ; i++ {
		element, rest, more := v, "", false
		if k.between != "" {
			element, rest, more = strings.Cut(v, k.between)
		}
		switch {
		case k.equals != "":
			if key, value, _ := strings.Cut(element, k.equals); key == k.key {
				return value, true
			}
		case i == k.index:
			return element, true
		}
		if !more {
			return "", false
		}
		v = rest
	}
}

// appendFragment appends a fragment so that different lists of fragments are
// different keys.
func appendFragment(dst []byte, v string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(v))), v...)
}

// ScopeKey is the key of a scope, as [ScopeKeyBuilder.Append] makes it.
func ScopeKey(k *routev3.ScopedRouteConfiguration_Key) string {
	var out []byte
	for _, f := range k.GetFragments() {
		out = appendFragment(out, f.GetStringKey())
	}
	return string(out)
}
