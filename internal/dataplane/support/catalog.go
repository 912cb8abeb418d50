package support

import (
	"cmp"
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed tables/*.txt
var tables embed.FS

// Options say what differs from the tables.
type Options struct {
	// Extensions are the full names of messages that configure extensions of the
	// embedding program, such as "acme.filters.v1.Audit". They are accepted
	// wherever an extension can stand and not looked into: the extension checks
	// its own configuration.
	Extensions []string
	// Disabled are the usual names of extensions to treat as unregistered, with
	// or without their category: "envoy.filters.http.fault" or
	// "envoy.filters.http/envoy.filters.http.fault" (BS-49).
	Disabled []string
}

// Catalog is what this build has. It never changes and is safe for concurrent use.
type Catalog struct {
	messages map[protoreflect.FullName]*entry
	slots    map[string]*slot
	why      map[string]string
	custom   map[protoreflect.FullName]bool
	known    func() map[protoreflect.FullName]bool
	plans    sync.Map // of types of messages, as they are met

	undisabled []string
}

// entry is what is built of one message.
type entry struct {
	fields map[protoreflect.Name]field
}

// field is a field that is built, or accepted without effect.
type field struct {
	noop bool
	slot string
	// only lists the values that are built, except those that are not; nil if
	// there is no such list.
	only, except []string
}

// slot is a place for extensions.
type slot struct {
	name, category string
	types          map[protoreflect.FullName]string // to the usual name
	byName         map[string]bool                  // what its name alone selects
	disabled       map[protoreflect.FullName]bool
	optional       bool // it may be empty
}

// anything is the slot whose content is kept but not read.
const anything = "*"

// New reads the tables. An error is a mistake in a table, which a test of this
// package finds.
func New(o Options) (*Catalog, error) {
	c := &Catalog{
		messages: map[protoreflect.FullName]*entry{},
		slots:    map[string]*slot{},
		why:      map[string]string{},
		custom:   map[protoreflect.FullName]bool{},
	}
	x := &classifier{also: map[protoreflect.FullName]bool{}, not: map[protoreflect.FullName]bool{}}
	files, err := tables.ReadDir("tables")
	if err != nil {
		return nil, fmt.Errorf("the tables of what is built: %w", err)
	}
	for _, f := range files {
		text, err := tables.ReadFile("tables/" + f.Name())
		if err != nil {
			return nil, fmt.Errorf("the tables of what is built: %w", err)
		}
		p := &parser{catalog: c, classes: x, file: f.Name()}
		if err := p.parse(string(text)); err != nil {
			return nil, err
		}
	}
	for _, name := range o.Extensions {
		c.custom[protoreflect.FullName(strings.TrimPrefix(name, typePrefix))] = true
	}
	c.known = sync.OnceValue(x.extensions)
	c.disable(o.Disabled)
	return c, nil
}

// disable takes extensions out of their slots.
func (c *Catalog) disable(names []string) {
	for _, name := range names {
		category, plain, qualified := strings.Cut(name, "/")
		if !qualified {
			plain = name
		}
		found := false
		for _, s := range c.slots {
			if qualified && s.category != category {
				continue
			}
			found = s.disable(plain) || found
		}
		if !found {
			c.undisabled = append(c.undisabled, name)
		}
	}
}

// Undisabled lists the names in Options.Disabled that are of no extension here,
// which changes nothing, as in Envoy.
func (c *Catalog) Undisabled() []string { return slices.Clone(c.undisabled) }

func (s *slot) disable(name string) bool {
	found := s.byName[name]
	delete(s.byName, name)
	for t, n := range s.types {
		if n == name {
			s.disabled[t] = true
			found = true
		}
	}
	return found
}

// Extension is an extension that is built.
type Extension struct {
	// Name is the usual one, Category Envoy's name for its kind.
	Name, Category string
	// Types are the full names of the messages that configure it.
	Types []string
}

// Extensions lists what is built and not disabled, by category and name, as a
// node tells a management server.
func (c *Catalog) Extensions() []Extension {
	type key struct{ category, name string }
	types := map[key][]string{}
	for _, s := range c.slots {
		for t, n := range s.types {
			if n != "-" && !s.disabled[t] {
				types[key{s.category, n}] = append(types[key{s.category, n}], string(t))
			}
		}
		for n := range s.byName {
			types[key{s.category, n}] = append(types[key{s.category, n}], []string{}...)
		}
	}
	out := make([]Extension, 0, len(types))
	for k, t := range types {
		slices.Sort(t)
		out = append(out, Extension{Name: k.name, Category: k.category, Types: slices.Compact(t)})
	}
	slices.SortFunc(out, func(a, b Extension) int {
		return cmp.Or(cmp.Compare(a.Category, b.Category), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// Class says what this build makes of a message when it configures an extension.
type Class int

// Classes. Unknown messages are not part of Envoy's API as this program has it.
const (
	Unknown Class = iota
	Message       // part of another message, a resource, or a service's: configures nothing
	Known         // configures an extension that is not built
	Built         // configures an extension that is built, or that the embedding program has
)

// Classify says what a message is, given its full name or its type URL (HF-17).
func (c *Catalog) Classify(name string) Class {
	full := protoreflect.FullName(name[strings.LastIndexByte(name, '/')+1:])
	if c.custom[full] {
		return Built
	}
	for _, s := range c.slots {
		if _, ok := s.types[full]; ok {
			return Built
		}
	}
	return classOf(full, c.known())
}
