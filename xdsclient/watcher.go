package xdsclient

import (
	"cmp"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// Watcher is told about the resources of one watch (XC-34, GC-54).
//
// For each resource there are two states: there is a value, or there is none
// and an error says why. While there is a value, an ambient error can stand
// beside it: something is wrong, and the value is to be used all the same.
//
// A watch of a name gets its first call at once if the resource is cached.
// Callbacks of one source come one at a time, in the order of what happened,
// and without a lock: they may watch and cancel. They must not call
// [Source.Close] or [Fetch], which wait for them. The next message of a stream
// is read when the callbacks of the one before have returned, so that a slow
// watcher slows down the server and not the program (GC-56).
type Watcher[T any] interface {
	// OnChange brings a new value, and ends an error or ambient error. The same
	// content is not brought twice, unless there was an error in between.
	OnChange(u Update[T])
	// OnError says that there is no value, or none any more. err is an [*Error].
	// Under a wildcard or a glob name is the resource's; it is the watch's own
	// if the collection as a whole cannot be had.
	OnError(name string, err error)
	// OnAmbientError says that a value is kept although something is wrong; nil
	// that nothing is any more. Of a wildcard or glob, name is that of the watch
	// if the error concerns the server and not one resource.
	OnAmbientError(name string, err error)
}

// Update is a new value of a resource. It is read-only, since watchers share it.
type Update[T any] struct {
	// Name is the resource's name, which is not the watch's for a wildcard, a
	// collection or an alias. An inline entry of a list collection has the
	// collection's name with "#entry=" and its own; without one, with "#" and the
	// name in the resource.
	Name string
	// Found is the name by which the resource was found if a redirect, a list
	// collection or an alternative has led there; otherwise it is Name.
	Found string
	// Version is the resource's version; in the state-of-the-world variant that
	// of the response it came in.
	Version string
	// Value is the decoded resource.
	Value T
	// Body is the resource's bytes as they came.
	Body []byte
	// Server is the name of the server it came from, or "store" for what was
	// read from [Config.Store].
	Server string
}

// Response is a response that has been worked off.
type Response struct {
	// TypeURL, Version and Server say what it was.
	TypeURL, Version, Server string
	// Err is why it was rejected, nil if it was accepted. Valid resources of a
	// rejected response have been delivered all the same (XC-11).
	Err error
}

// ResponseWatcher is a [Watcher] that wants to know when everything that came
// in one response has been delivered: to apply it at one stroke, or to know
// that a wildcard has had its first answer, which may be empty (XC-26).
// OnResponse is called once for each response of the type, whether it held
// something for this watch or not.
type ResponseWatcher interface {
	OnResponse(r Response)
}

// SettledWatcher is a [Watcher] that wants to know when there is something known of
// every member of the list collection that it watches: a value or an error. OnSettled
// is called once, after the members' own calls. Of a glob collection or wildcard it is
// called when the members that were held when the watch began have been told, if there
// were any: those come without a response.
type SettledWatcher interface {
	OnSettled()
}

// Funcs is a [Watcher] made of functions; those that are nil are not called.
type Funcs[T any] struct {
	Change       func(u Update[T])
	Error        func(name string, err error)
	AmbientError func(name string, err error)
	Response     func(r Response)
	Settled      func()
}

// OnChange calls f.Change.
func (f Funcs[T]) OnChange(u Update[T]) {
	if f.Change != nil {
		f.Change(u)
	}
}

// OnError calls f.Error.
func (f Funcs[T]) OnError(name string, err error) {
	if f.Error != nil {
		f.Error(name, err)
	}
}

// OnAmbientError calls f.AmbientError.
func (f Funcs[T]) OnAmbientError(name string, err error) {
	if f.AmbientError != nil {
		f.AmbientError(name, err)
	}
}

// OnSettled calls f.Settled.
func (f Funcs[T]) OnSettled() {
	if f.Settled != nil {
		f.Settled()
	}
}

// OnResponse calls f.Response.
func (f Funcs[T]) OnResponse(r Response) {
	if f.Response != nil {
		f.Response(r)
	}
}

// Watch watches a resource until cancel is called (GC-34, XC-40). The name is
// that of one resource, [Wildcard], a glob collection ("xdstp://…/*", delta
// only), or a list collection ("xdstp://…Collection/…"), of whose members w is told
// as of a glob's. A structured name may have directives (see [xds.Locator]):
// "#entry=" chooses one entry of a list collection, "#alt=" says where to ask if no
// server of the name's authority can be reached. Redirects are followed, 8 at most.
// It does not wait: everything is said to w.
//
// Watches of one name share a subscription; the last to leave ends it, and the
// resource is forgotten. cancel may be called more than once and from
// anywhere; when it has returned, no new callback is made, though one that is
// being made by another goroutine may still be running.
func Watch[T any](s *Source, t Type[T], name string, w Watcher[T]) (cancel func()) {
	x := &watch{name: name, sink: typed[T]{w}, responses: wantsResponses(w)}
	d := t.erase()
	s.post(func() { s.addWatch(d, x) })
	return func() {
		if x.cancelled.CompareAndSwap(false, true) {
			s.post(func() { s.dropWatch(d.URL, x) })
		}
	}
}

// wantsResponses reports whether a watcher is to be told of responses.
func wantsResponses(w any) bool {
	if f, ok := w.(interface{ wantsResponses() bool }); ok {
		return f.wantsResponses()
	}
	_, ok := w.(ResponseWatcher)
	return ok
}

func (f Funcs[T]) wantsResponses() bool { return f.Response != nil }

// sink is a Watcher without its parameter.
type sink interface {
	change(u *update)
	error(name string, err error)
	ambient(name string, err error)
	response(r Response)
	settled()
}

// update is an Update without its parameter.
type update struct {
	name, version, server string
	value                 any
	body                  []byte
	// form says what body is; to is where a redirect leads, list what a list
	// collection holds. found is the name before the update was renamed.
	form  client.Form
	to    *xds.Locator
	list  *list
	found string
}

type typed[T any] struct{ w Watcher[T] }

func (t typed[T]) change(u *update) {
	v, _ := u.value.(T) // a nil interface is a nil value of an interface type T
	t.w.OnChange(Update[T]{Name: u.name, Found: cmp.Or(u.found, u.name), Version: u.version, Value: v, Body: u.body, Server: u.server})
}

func (t typed[T]) error(name string, err error)   { t.w.OnError(name, err) }
func (t typed[T]) ambient(name string, err error) { t.w.OnAmbientError(name, err) }

func (t typed[T]) settled() {
	if w, ok := t.w.(SettledWatcher); ok {
		w.OnSettled()
	}
}

func (t typed[T]) response(r Response) {
	if w, ok := t.w.(ResponseWatcher); ok {
		w.OnResponse(r)
	}
}

// manyNamed reports whether a watch of a name is told of many resources.
func manyNamed(name string) bool {
	if collectionName(name) {
		return true
	}
	l, err := xds.ParseLocator(name)
	return err == nil && l.IsList()
}

// collectionName reports whether a name stands for many resources that have a name
// each: a wildcard or a glob collection.
func collectionName(name string) bool {
	if name == Wildcard {
		return true
	}
	if !xds.IsURN(name) {
		return false
	}
	u, err := xds.ParseURN(name)
	return err == nil && u.IsGlob()
}
