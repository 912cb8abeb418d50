package matchtree

import (
	"net/netip"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"
)

// Input reads one thing of what is decided about.
type Input[D any] struct {
	// Text is the value, if there is one; nil of an input that has no text.
	Text func(d D) (value string, ok bool)
	// Metadata is a value of dynamic metadata and how it is matched; nil of others.
	// Only the matcher of metadata reads it.
	Metadata func(d D) (value *structpb.Value, ok bool)
}

// Tree decides on an A by looking at a D.
type Tree[D, A any] struct{ root node[D, A] }

// Match returns the action of the first branch that leads to one; ok is false if none
// does. Any number of goroutines may call it.
func (t *Tree[D, A]) Match(d D) (action A, ok bool) { return t.root.match(d) }

type node[D, A any] interface {
	match(d D) (A, bool)
}

// branch is an OnMatch: what follows a condition.
type branch[D, A any] struct {
	tree   node[D, A] // or nil, and action says it
	action A
	// keep says that what it leads to is not taken (keep_matching).
	keep bool
}

// follow returns what the branch leads to. A nil branch leads nowhere.
func (b *branch[D, A]) follow(d D) (action A, ok bool) {
	if b == nil {
		return action, false
	}
	found, ok := b.action, true
	if b.tree != nil {
		found, ok = b.tree.match(d)
	}
	if !ok || b.keep {
		return action, false
	}
	return found, true
}

// list is a matcher_list: the first entry that holds and leads somewhere.
type list[D, A any] struct {
	entries []entry[D, A]
	none    *branch[D, A]
}

type entry[D, A any] struct {
	holds func(D) bool
	then  *branch[D, A]
}

func (l *list[D, A]) match(d D) (A, bool) {
	for i := range l.entries {
		if !l.entries[i].holds(d) {
			continue
		}
		if a, ok := l.entries[i].then.follow(d); ok {
			return a, true
		}
	}
	return l.none.follow(d)
}

// exact is an exact_match_map.
type exact[D, A any] struct {
	input Input[D]
	keys  map[string]*branch[D, A]
	none  *branch[D, A]
}

func (e *exact[D, A]) match(d D) (A, bool) {
	if text, ok := e.input.Text(d); ok {
		if a, ok := e.keys[text].follow(d); ok {
			return a, true
		}
	}
	return e.none.follow(d)
}

// prefix is a prefix_match_map: the longest prefix that leads somewhere.
type prefix[D, A any] struct {
	input   Input[D]
	keys    map[string]*branch[D, A]
	lengths []int // of the keys, the longest first
	none    *branch[D, A]
}

func (p *prefix[D, A]) match(d D) (A, bool) {
	if text, ok := p.input.Text(d); ok {
		for _, n := range p.lengths {
			if n > len(text) {
				continue
			}
			if a, ok := p.keys[text[:n]].follow(d); ok {
				return a, true
			}
		}
	}
	return p.none.follow(d)
}

// ranges is an IPMatcher: the longest range that leads somewhere.
type ranges[D, A any] struct {
	input Input[D]
	keys  rangeMap[[]rangeBranch[D, A]]
	none  *branch[D, A]
}

type rangeBranch[D, A any] struct {
	then *branch[D, A]
	// exclusive says that it is only for addresses of which no other range was
	// looked at before.
	exclusive bool
}

func (r *ranges[D, A]) match(d D) (A, bool) {
	text, ok := r.input.Text(d)
	if !ok {
		return r.none.follow(d)
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return r.none.follow(d)
	}
	first := true
	for list := range r.keys.containing(addr) {
		for _, b := range list {
			if b.exclusive && !first {
				continue
			}
			first = false
			if a, ok := b.then.follow(d); ok {
				return a, true
			}
		}
	}
	return r.none.follow(d)
}

// domains is a ServerNameMatcher: the name, then its suffixes from the longest on,
// then what is for all names.
type domains[D, A any] struct {
	input     Input[D]
	names     map[string]*branch[D, A]
	wildcards map[string]*branch[D, A] // without the "*."
	any, none *branch[D, A]
}

func (m *domains[D, A]) match(d D) (A, bool) {
	name, ok := m.input.Text(d)
	if !ok || name == "" {
		return m.none.follow(d)
	}
	if a, ok := m.names[name].follow(d); ok {
		return a, true
	}
	for rest := name; ; {
		_, parent, more := strings.Cut(rest, ".")
		if !more {
			break
		}
		if a, ok := m.wildcards[parent].follow(d); ok {
			return a, true
		}
		rest = parent
	}
	if a, ok := m.any.follow(d); ok {
		return a, true
	}
	return m.none.follow(d)
}

// always is a Matcher without conditions.
type always[D, A any] struct{ then *branch[D, A] }

func (n *always[D, A]) match(d D) (A, bool) { return n.then.follow(d) }
