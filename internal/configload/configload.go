// Package configload turns configuration files into protobuf messages that
// remember where each of their fields was written. It reads YAML, JSON, text
// and binary protobuf with the leniences of Envoy's own parser.
//
// YAML, JSON and the text format are read into one small tree whose nodes know
// their line and column; the tree is then walked along the descriptors of the
// wanted message. One walk therefore serves every format, finds every problem
// of a file instead of the first one, and knows the field path and the place of
// each.
package configload

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/xebec-proxy/xebec/xds"
)

// Resource is one resource found in a file. It is read-only once returned.
type Resource struct {
	// Message is the decoded resource, TypeURL its full type URL and Name its
	// name: the wrapper's if there is one, else the message's.
	Message proto.Message
	TypeURL string
	Name    string
	// BodyType is the type URL of the message if it only stands for resources of
	// TypeURL: a redirect or a list collection, which are in a wrapper always. The
	// Message of the latter is a ListenerCollection whatever its type. Empty
	// otherwise.
	BodyType string
	// Version and Aliases come from a Resource wrapper; empty otherwise.
	Version string
	Aliases []string
	// Pos is where the resource begins; Positions maps field paths such as
	// "filter_chains[0].filters[1].typed_config.stat_prefix" to where they stand.
	Pos       xds.Position
	Positions *Positions
	// Warnings are what was accepted but should be changed, such as the v2
	// field hosts (BS-07). Warnings about the rest of a file are with the first
	// resource of that file's document.
	Warnings []*xds.ResourceError
}

// Resolver finds message types by name; protoregistry.GlobalTypes is one.
type Resolver interface {
	FindMessageByName(name protoreflect.FullName) (protoreflect.MessageType, error)
	RangeMessages(f func(protoreflect.MessageType) bool)
}

// Loader reads files. The zero Loader is ready to use and safe for concurrent
// use.
type Loader struct {
	// Types finds the messages named by @type; nil means all that are linked in.
	Types Resolver
	// AllowUnknownFields turns unknown fields into warnings (BS-16).
	AllowUnknownFields bool
	// KeepUnknownTypes keeps an Any whose @type is not linked in, with its type URL
	// and without its content, instead of refusing it, for a caller who has more to
	// say about it. Types of the v2 API are refused all the same.
	KeepUnknownTypes bool
	// Successor, if set, says which message of v3 followed one of v2, and lets what is
	// written in v2 be read as v3, with warnings (XV-05). Nil: v2 is refused (BS-21),
	// but for the hosts of a cluster.
	Successor func(v2 protoreflect.FullName) (protoreflect.FullName, bool)
}

// Nearest is the full name of a message that was probably meant by an unknown
// one, given by its name or type URL; false if none is near.
func (l *Loader) Nearest(name string) (string, bool) {
	return newLoad(l, "").suggest.message(protoreflect.FullName(name[strings.LastIndexByte(name, '/')+1:]))
}

// File reads the resources of one file with the zero Loader.
func File(name string, data []byte) ([]*Resource, []*xds.ResourceError) {
	return (&Loader{}).File(name, data)
}

// Message reads a file that is one message with the zero Loader.
func Message(name string, data []byte, into proto.Message) (*Positions, []*xds.ResourceError) {
	return (&Loader{}).Message(name, data, into)
}

// File reads the resources of one file. The suffix of its name picks the format
// (BS-01). Each document of the file is a resource with @type, a list
// resources: as in a DiscoveryResponse (XF-01), or a bootstrap, of which the
// static_resources are taken. It returns every resource that is whole and every
// problem of the others; a problem in one resource hides no other.
func (l *Loader) File(name string, data []byte) ([]*Resource, []*xds.ResourceError) {
	ld := newLoad(l, name)
	docs, ok := ld.parse(data)
	if !ok {
		ld.binaryFile(data)
	}
	for _, d := range docs {
		ld.document(d)
	}
	return ld.resources, ld.problems()
}

// Message reads a file that is one message of into's type, such as a bootstrap,
// into a reset into. The positions are never nil and hold the warnings. If
// there are problems, into holds what could be read.
func (l *Loader) Message(name string, data []byte, into proto.Message) (*Positions, []*xds.ResourceError) {
	ld := newLoad(l, name)
	proto.Reset(into)
	b := ld.builder(xds.TypePrefix+string(into.ProtoReflect().Descriptor().FullName()), "")
	root := &place{}
	docs, ok := ld.parse(data)
	if ok {
		b.onlyDocument(docs, into.ProtoReflect(), root)
	} else {
		b.onlyBinary(data, into)
	}
	return &Positions{file: name, root: root, warnings: b.warnings}, ld.problems()
}

// types is the resolver in use.
func (l *Loader) types() Resolver {
	if l.Types != nil {
		return l.Types
	}
	return protoregistry.GlobalTypes
}
