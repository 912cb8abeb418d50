package xds

import (
	"errors"
	"fmt"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// LocatorType is the type URL of a redirect: a resource that says by which locator
// the resource asked for is found (XN-10).
const LocatorType = TypePrefix + "xds.core.v3.ResourceLocator"

// CollectionType is the type URL of the list collections of a resource type, whose
// own is given (XN-08).
func CollectionType(typeURL string) string { return typeURL + collectionSuffix }

// CollectionEntry is one entry of a list collection: a locator, or a resource.
type CollectionEntry struct {
	// Locator says where the resource is; nil of an inline entry.
	Locator *Locator
	// Name is by which a locator's entry directive finds an inline entry; empty if
	// it cannot. It is no resource's name.
	Name string
	// Version is the inline resource's, TypeURL that of its message, and Body the
	// message, a part of what was parsed.
	Version, TypeURL string
	Body             []byte
}

// collectionField is that of the entries in a list collection, whatever its type:
// the generated messages of some types have room for one entry only, though on the
// wire there can be many.
const collectionField = 1

// ParseCollection reads the message of a list collection of any type. It refuses
// entries that neither have a locator nor a resource, locators that [LocatorFromProto]
// refuses, and names that are used twice or could not stand in a locator. An error
// names the entry, counted from 0. Fields that are not known are ignored.
func ParseCollection(body []byte) ([]CollectionEntry, error) {
	var list []CollectionEntry
	names := map[string]struct{}{}
	for len(body) > 0 {
		num, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return nil, fmt.Errorf("reading a list collection: %w", protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(num, typ, body[n:])
		if size < 0 {
			return nil, fmt.Errorf("reading a list collection: %w", protowire.ParseError(size))
		}
		value := body[n : n+size]
		body = body[n+size:]
		if num != collectionField || typ != protowire.BytesType {
			continue
		}
		data, _ := protowire.ConsumeBytes(value)
		e, err := parseEntry(data)
		if _, twice := names[e.Name]; err == nil && twice {
			err = fmt.Errorf("the name %q occurs twice", e.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("entries[%d]: %w", len(list), err)
		}
		if e.Name != "" {
			names[e.Name] = struct{}{}
		}
		list = append(list, e)
	}
	return list, nil
}

func parseEntry(data []byte) (CollectionEntry, error) {
	var m xdscorev3.CollectionEntry
	if err := proto.Unmarshal(data, &m); err != nil {
		return CollectionEntry{}, err //nolint:wrapcheck // says it all
	}
	switch v := m.GetResourceSpecifier().(type) {
	case *xdscorev3.CollectionEntry_Locator:
		l, err := LocatorFromProto(v.Locator)
		return CollectionEntry{Locator: &l}, err
	case *xdscorev3.CollectionEntry_InlineEntry_:
		in := v.InlineEntry
		e := CollectionEntry{
			Name: in.GetName(), Version: in.GetVersion(), TypeURL: in.GetResource().GetTypeUrl(), Body: in.GetResource().GetValue(),
		}
		switch {
		case in.GetResource() == nil:
			return e, errors.New("inline_entry.resource: there is none")
		case e.Name != "" && !entryName(e.Name):
			return e, badEntryName(e.Name)
		}
		return e, nil
	}
	return CollectionEntry{}, errors.New("has neither a locator nor an inline_entry")
}

// Check reports an error unless the entry may stand in a list collection of resources
// of a type: an inline entry of that type, or the locator of one such resource.
func (e CollectionEntry) Check(typeURL string) error {
	switch {
	case e.Locator != nil:
		return e.Locator.Check(typeURL, false)
	case e.TypeURL != typeURL:
		return fmt.Errorf("inline_entry.resource: type %q in a collection of %s", e.TypeURL, trimTypePrefix(typeURL))
	}
	return nil
}

// IsList reports whether the locator names a list collection, and not an entry of it.
func (l Locator) IsList() bool { return l.Entry == "" && l.URN.IsListCollection() }

// Check reports an error unless the locator and its alternatives each lead to one
// resource of a type, or, if list is set, each to a list collection of such. A glob
// collection is neither.
func (l Locator) Check(typeURL string, list bool) error {
	for at := &l; at != nil; at = at.Alt {
		if err := at.URN.CheckType(typeURL); err != nil {
			return err
		}
		switch {
		case at.URN.IsGlob():
			return fmt.Errorf("%s names a glob collection, which only a watch of its own can", at)
		case at.Entry != "" && !at.URN.IsListCollection():
			return fmt.Errorf("%s: entry is for list collections, of which this names none", at)
		case at.IsList() && !list:
			return fmt.Errorf("%s names a list collection where one resource is expected; name an entry of it, with #entry=", at)
		case !at.IsList() && list:
			return fmt.Errorf("%s names one resource where a list collection is expected", at)
		}
	}
	return nil
}

// CheckRedirect reports an error unless the resource of a type and name may be a
// redirect to a locator (XN-10): a list collection to another one, anything else to one
// resource of the type. Glob collections are no resources, so they have no redirect.
func CheckRedirect(typeURL, name string, to Locator) error {
	return to.Check(typeURL, isListName(name))
}

// isListName reports whether a name is a list collection's.
func isListName(name string) bool {
	if !IsURN(name) {
		return false
	}
	u, err := ParseURN(name)
	return err == nil && u.IsListCollection()
}

// CheckCollectionName reports an error unless the name is one that a list collection of
// a type can have.
func CheckCollectionName(typeURL, name string) error {
	u, err := ParseURN(name)
	switch {
	case err != nil:
		return err
	case !u.IsListCollection():
		return fmt.Errorf("%q is no list collection's name; expected xdstp://[authority]/%s%s/id", name, trimTypePrefix(typeURL), collectionSuffix)
	}
	return u.CheckType(typeURL)
}

// CheckCollection reports an error unless a message is a list collection of resources
// of a type: what [ParseCollection] and [CollectionEntry.Check] refuse.
func CheckCollection(typeURL string, body []byte) error {
	list, err := ParseCollection(body)
	if err != nil {
		return err
	}
	for i, e := range list {
		if err := e.Check(typeURL); err != nil {
			return fmt.Errorf("entries[%d]: %w", i, err)
		}
	}
	return nil
}
