package xds

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	urnScheme        = "xdstp:"
	urnPrefix        = urnScheme + "//"
	urnForm          = "xdstp://[authority]/type/id[?key=value&...]"
	collectionSuffix = "Collection"
	reservedParams   = "xds."
	resourceParams   = "xds.resource."
)

// ErrDirectives is wrapped by ParseURN's error for a name with a "#" part:
// directives are for clients and never travel on the wire (XN-02).
// [ParseLocator] reads them.
var ErrDirectives = errors.New("a name on the wire carries no directives; send what stands before the #")

// URN is a structured resource name, as specified by the xDS proposal TP1 and
// xds/core/v3/resource_name.proto (XN-01). Its fields are decoded: no percent
// encoding. A URN whose ID is "*" or ends in "/*" names a glob collection.
//
// A URN is a value; treat Params as read-only once the URN is in use, then it
// is safe for concurrent use. URNs are compared with [URN.Equal], or by their
// [URN.String], which makes a map key.
type URN struct {
	// Authority names who is responsible for the resource; opaque, case counts,
	// may be empty.
	Authority string
	// Type is the resource type without TypePrefix, such as
	// "envoy.config.listener.v3.Listener".
	Type string
	// ID is the name within the authority and the type; it may have slashes.
	ID string
	// Params are the context parameters; nil and empty are the same. They are
	// part of the name: other parameters, other resource (XN-04).
	Params map[string]string
}

// IsURN reports whether a resource name claims to be a structured one. Other
// names are opaque: they have no parts and equal only themselves. A name for
// which IsURN is true may still be refused by [ParseURN].
func IsURN(name string) bool { return strings.HasPrefix(name, urnScheme) }

// ParseURN reads a name in its wire form. It accepts names of resources and of
// glob and list collections, in any order of parameters and with any
// characters percent-encoded. It refuses directives (see [ErrDirectives]),
// names without a valid type or an ID, parameters without a key or with the
// same key twice, broken percent-encoding, and parts that are not UTF-8 once
// decoded. An error names the offending part and the expected form.
func ParseURN(name string) (URN, error) {
	if strings.Contains(name, "#") {
		return URN{}, fmt.Errorf("resource name %q: %w", name, ErrDirectives)
	}
	u, err := parseURN(name)
	if err != nil {
		return URN{}, fmt.Errorf("resource name %q: %w", name, err)
	}
	return u, nil
}

func parseURN(name string) (URN, error) {
	rest, ok := strings.CutPrefix(name, urnPrefix)
	if !ok {
		return URN{}, fmt.Errorf("does not start with %q; expected %s", urnPrefix, urnForm)
	}
	rest, query, _ := strings.Cut(rest, "?")
	authority, path, ok := strings.Cut(rest, "/")
	if !ok {
		return URN{}, fmt.Errorf("has no type; expected %s", urnForm)
	}
	typ, id, _ := strings.Cut(path, "/")
	u := URN{Type: typ}
	var err error
	if u.Authority, err = unescape(authority); err != nil {
		return URN{}, fmt.Errorf("authority: %w", err)
	}
	if u.ID, err = unescape(id); err != nil {
		return URN{}, fmt.Errorf("id: %w", err)
	}
	if u.Params, err = parseParams(query); err != nil {
		return URN{}, err
	}
	return u, u.Validate()
}

func parseParams(query string) (map[string]string, error) {
	var params map[string]string
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "" {
			continue
		}
		rawKey, rawValue, _ := strings.Cut(pair, "=")
		key, err := unescape(rawKey)
		if err != nil {
			return nil, fmt.Errorf("context parameter %q: %w", rawKey, err)
		}
		value, err := unescape(rawValue)
		if err != nil {
			return nil, fmt.Errorf("context parameter %q: %w", rawKey, err)
		}
		if _, twice := params[key]; twice {
			return nil, fmt.Errorf("context parameter %q occurs twice; give it once", key)
		}
		if params == nil {
			params = map[string]string{}
		}
		params[key] = value
	}
	return params, nil
}

// Validate reports what [ParseURN] would refuse in a URN that was built rather
// than parsed: a type that is no full message name, an empty ID, an empty
// parameter key, a part that is not UTF-8.
func (u URN) Validate() error {
	switch {
	case u.Type == "":
		return fmt.Errorf("has no type; expected %s", urnForm)
	case !protoreflect.FullName(u.Type).IsValid():
		return fmt.Errorf("type %q is no message name; expected one such as envoy.config.listener.v3.Listener", u.Type)
	case u.ID == "":
		return fmt.Errorf("has no id; expected %s", urnForm)
	case !utf8.ValidString(u.Authority):
		return fmt.Errorf("authority %q is not UTF-8", u.Authority)
	case !utf8.ValidString(u.ID):
		return fmt.Errorf("id %q is not UTF-8", u.ID)
	}
	for k, v := range u.Params {
		if k == "" {
			return fmt.Errorf("a context parameter has no key; expected %s", urnForm)
		}
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return fmt.Errorf("context parameter %q is not UTF-8", k)
		}
	}
	return nil
}

// Equal reports whether two URNs name the same resource: equal part by part,
// parameters in any order (XN-01).
func (u URN) Equal(o URN) bool {
	return u.Authority == o.Authority && u.Type == o.Type && u.ID == o.ID && maps.Equal(u.Params, o.Params)
}

// IsGlob reports whether the URN names a glob collection: all resources
// directly under a path (XN-05).
func (u URN) IsGlob() bool { return u.ID == "*" || strings.HasSuffix(u.ID, "/*") }

// GlobPrefix is what the IDs of a glob's members start with: its ID without
// the "*", so "" or a path with its final slash. It is "" for a URN that is no
// glob.
func (u URN) GlobPrefix() string {
	if !u.IsGlob() {
		return ""
	}
	return u.ID[:len(u.ID)-1]
}

// Glob returns the one glob collection that a resource of this name is a
// member of, so that subscriptions can be looked up by name. It reports false
// for a URN that is itself a glob or whose ID ends in a slash.
func (u URN) Glob() (URN, bool) {
	dir := u.ID[:strings.LastIndexByte(u.ID, '/')+1]
	if u.IsGlob() || len(dir) == len(u.ID) {
		return URN{}, false
	}
	u.ID = dir + "*"
	return u, true
}

// Covers reports whether a subscription to u includes the resource of that
// name: for a glob its members, with equal authority, type and parameters
// (XN-04, XN-05), otherwise the resource itself. The name need not be
// canonical. Names that [ParseURN] refuses, and names of globs, are no
// resource's and never covered.
func (u URN) Covers(name string) bool {
	if !IsURN(name) {
		return false
	}
	n, err := ParseURN(name)
	if err != nil || n.IsGlob() {
		return false
	}
	if !u.IsGlob() {
		return u.Equal(n)
	}
	g, ok := n.Glob()
	return ok && u.Equal(g)
}

// ElementType is the type of a list collection's elements, and whether the URN
// names a list collection: a resource of type "<T>Collection" (XN-08). Globs
// are named by the type of their members, so they are none.
func (u URN) ElementType() (string, bool) {
	t, ok := strings.CutSuffix(u.Type, collectionSuffix)
	if !ok || u.IsGlob() || !protoreflect.FullName(t).IsValid() {
		return "", false
	}
	return t, true
}

// IsListCollection reports whether the URN names a list collection; see
// [URN.ElementType].
func (u URN) IsListCollection() bool {
	_, ok := u.ElementType()
	return ok
}

// CheckType reports an error unless the URN may be asked for on a sub-stream
// of the given type URL: its type is that type, or it names a list collection
// of that type (XN-03). The error concerns this name only.
func (u URN) CheckType(typeURL string) error {
	want := trimTypePrefix(typeURL)
	if u.Type == want {
		return nil
	}
	if t, ok := u.ElementType(); ok && t == want {
		return nil
	}
	return fmt.Errorf("resource name %q has type %s, but was asked for as %s", u, u.Type, want)
}

// CheckUserParams reports an error if a parameter uses the reserved prefix
// "xds.", which people must not write in a locator or a resource's name
// (XN-04).
func (u URN) CheckUserParams() error {
	for _, k := range u.paramKeys() {
		if strings.HasPrefix(k, reservedParams) {
			return fmt.Errorf("resource name %q: context parameter %q uses the reserved prefix %q; rename it",
				u, k, reservedParams)
		}
	}
	return nil
}

// WithResourceParams returns the URN with generated parameters added: each key
// gets the prefix "xds.resource." unless it has it already (XN-04). The
// receiver is unchanged.
func (u URN) WithResourceParams(attrs map[string]string) URN {
	params := make(map[string]string, len(u.Params)+len(attrs))
	maps.Copy(params, u.Params)
	for k, v := range attrs {
		if !strings.HasPrefix(k, resourceParams) {
			k = resourceParams + k
		}
		params[k] = v
	}
	u.Params = params
	return u
}

// URNFromProto converts and validates the protocol's message.
func URNFromProto(p *xdscorev3.ResourceName) (URN, error) {
	u := URN{
		Authority: p.GetAuthority(), Type: p.GetResourceType(), ID: p.GetId(),
		Params: maps.Clone(p.GetContext().GetParams()),
	}
	if err := u.Validate(); err != nil {
		return URN{}, fmt.Errorf("xds.core.v3.ResourceName: %w", err)
	}
	return u, nil
}

// Proto is the URN as the protocol's message.
func (u URN) Proto() *xdscorev3.ResourceName {
	return &xdscorev3.ResourceName{
		Authority: u.Authority, ResourceType: u.Type, Id: u.ID, Context: u.contextParams(),
	}
}

func (u URN) contextParams() *xdscorev3.ContextParams {
	if len(u.Params) == 0 {
		return nil
	}
	return &xdscorev3.ContextParams{Params: maps.Clone(u.Params)}
}
