package snapshot

import (
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/xebec-proxy/xebec/xds"
)

// Set is the resources of one type in one group at one revision. It is
// immutable and safe for concurrent use.
type Set struct {
	byName  *iradix.Tree[*xds.Resource]
	byAlias *iradix.Tree[*xds.Resource]
	// byDomain is nil in a set that holds no virtual hosts.
	byDomain *domains
	// onDemand is nil in a set that holds no route configurations.
	onDemand func() []string
	sum      [2]uint64
	label    string
	indirect int // how many only stand for others
	// What follows is made when it is first asked for.
	all     func() []*xds.Resource
	direct  func() []*xds.Resource
	version func() string

	// index is made when there have been as many look-ups as there are
	// resources, so that its cost is spread over them: many streams that ask
	// for everything by name look at one set, while the sets of a busy group
	// are each looked at a few times.
	index   atomic.Pointer[map[string]*xds.Resource]
	lookups atomic.Int64
	indexed sync.Once
}

func newSet(byName, byAlias *iradix.Tree[*xds.Resource], sum [2]uint64, label string) *Set {
	s := &Set{byName: byName, byAlias: byAlias, sum: sum, label: label}
	s.all = sync.OnceValue(s.list)
	s.direct = sync.OnceValue(s.listDirect)
	s.version = sync.OnceValue(s.name)
	return s
}

func emptySet() *Set {
	return newSet(iradix.New[*xds.Resource](), iradix.New[*xds.Resource](), [2]uint64{}, "")
}

// Len is the number of resources.
func (s *Set) Len() int { return s.byName.Len() }

// Version identifies the content of the set: equal sets have equal versions,
// on every replica and after a restart, unless a label was given (XS-15, XS-16).
func (s *Set) Version() string { return s.version() }

func (s *Set) name() string {
	if s.label != "" {
		return s.label
	}
	return fmt.Sprintf("%016x%016x", s.sum[0], s.sum[1])
}

// Get finds a resource by its name; nil if there is none.
func (s *Set) Get(name string) *xds.Resource {
	if m := s.index.Load(); m != nil {
		return (*m)[name]
	}
	if n := s.Len(); n > indexAbove && s.lookups.Add(1) > int64(n) {
		s.indexed.Do(s.makeIndex)
	}
	r, _ := s.byName.Get(key(name))
	return r
}

// indexAbove is the size from which an index is faster than the tree.
const indexAbove = 64

func (s *Set) makeIndex() {
	m := make(map[string]*xds.Resource, s.Len())
	for r := range s.Under("") {
		m[r.Name()] = r
	}
	s.index.Store(&m)
}

// Resolve finds a resource by its name or one of its aliases; nil if there is
// none. A name wins over an alias.
func (s *Set) Resolve(name string) *xds.Resource {
	if r := s.Get(name); r != nil {
		return r
	}
	r, _ := s.byAlias.Get(key(name))
	return r
}

// All returns every resource, ordered by name. The slice is shared by all
// callers and must not be changed.
func (s *Set) All() []*xds.Resource { return s.all() }

// Direct returns what a wildcard stands for, ordered by name: every resource but
// those that only stand for others ([xds.Resource.Indirect]). The slice is shared by
// all callers, and with All, and must not be changed.
func (s *Set) Direct() []*xds.Resource {
	if s.indirect == 0 {
		return s.all()
	}
	return s.direct()
}

func (s *Set) listDirect() []*xds.Resource {
	return slices.DeleteFunc(slices.Clone(s.all()), (*xds.Resource).Indirect)
}

// Under iterates, in order, over the resources whose name starts with prefix.
func (s *Set) Under(prefix string) iter.Seq[*xds.Resource] {
	return func(yield func(*xds.Resource) bool) {
		s.byName.Root().WalkPrefix(key(prefix), func(_ []byte, r *xds.Resource) bool {
			return !yield(r)
		})
	}
}

func (s *Set) list() []*xds.Resource {
	l := make([]*xds.Resource, 0, s.Len())
	for r := range s.Under("") {
		l = append(l, r)
	}
	return l
}

// key views a string as the bytes the tree compares; the tree never keeps or
// changes the argument of a look-up.
func key(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
