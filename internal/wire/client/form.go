package client

import (
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Form says what the message of a resource is.
type Form uint8

// Forms.
const (
	// Plain is a resource of the response's type.
	Plain Form = iota
	// Redirect is an xds.core.v3.ResourceLocator: the resource is found by that
	// (XN-10). The channel does not look for it, for it may be another server's.
	Redirect
	// List is a list collection, which has a name of its own type (XN-08).
	List
)

// formOf is the form of a message in a response of a type; false for one of another
// type.
func formOf(message, typeURL string) (Form, bool) {
	if message == typeURL {
		return Plain, true
	}
	if message == xds.LocatorType {
		return Redirect, true
	}
	if rest, ok := strings.CutPrefix(message, typeURL); ok && rest == xds.CollectionType("") {
		return List, true
	}
	return Plain, false
}

// misplaced reports that a resource of a name cannot have a form. That a redirect
// leads to where it may is for the Checker to see.
func misplaced(typeURL, name string, form Form) error {
	if form == List {
		return xds.CheckCollectionName(typeURL, name) //nolint:wrapcheck // says it all
	}
	if form == Redirect || !xds.IsURN(name) || !strings.Contains(name, xds.CollectionType("")) {
		return nil
	}
	if u, err := xds.ParseURN(name); err == nil && u.IsListCollection() {
		return fmt.Errorf("a single resource by the name of a list collection; it should have the type %s", xds.CollectionType(typeURL))
	}
	return nil
}

// Flaw is an error of [Checker.Check] about a part of a resource, while the rest of it
// is good: what Check returns beside it is held, and the response is rejected all the
// same. So of a list collection the good entries are used.
type Flaw struct{ Err error }

// Error says what is wrong.
func (f *Flaw) Error() string { return f.Err.Error() }

// Unwrap is Err.
func (f *Flaw) Unwrap() error { return f.Err }
