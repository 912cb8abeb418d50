package file

import (
	"io/fs"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// tree is everything that is loaded: the files, what they claim, and the
// groups those claims are in. It does no I/O and belongs to one goroutine.
type tree struct {
	files map[string]*loaded
	// flawed are those of them that have findings.
	flawed map[string]*loaded
	// groupsFile is the state of groups.yaml; nil if there is none.
	groupsFile *loaded
	groups     *groups
	views      map[string]*view
	// strict makes references binding.
	strict bool
	// decided says that the sink has accepted the groups, or their absence.
	decided bool
	// full says that the next batch must hold everything: it is the first, or
	// the groups changed.
	full bool
}

// loaded is one file as it was last read.
type loaded struct {
	rel  string
	info fs.FileInfo
	sum  digest
	// read is when the bytes were read, at when what they say was taken over.
	read, at time.Time
	claims   map[xds.Key]*claim
	usable   int // claims with a resource
	groups   []string
	findings []validate.Finding
}

// digest identifies the bytes of a file.
type digest struct {
	hash uint64
	size int
}

func newTree(strict bool) *tree {
	t := &tree{files: map[string]*loaded{}, flawed: map[string]*loaded{}, views: map[string]*view{}, strict: strict, full: true}
	t.setGroups(nil)
	return t
}

// put takes over the content of a file.
func (t *tree) put(f *loaded, c content) {
	var before map[xds.Key]*claim
	if old := t.files[f.rel]; old != nil {
		before = old.claims
		f.groups = old.groups
	} else {
		f.groups = t.groups.of(f.rel)
	}
	var twice []validate.Finding
	f.claims, twice = c.claims(f.rel, before)
	f.findings = slices.Concat(c.findings, twice)
	for _, c := range f.claims {
		if c.res != nil {
			f.usable++
		}
	}
	t.files[f.rel] = f
	if delete(t.flawed, f.rel); len(f.findings) > 0 {
		t.flawed[f.rel] = f
	}
	for _, g := range f.groups {
		t.views[g].replace(before, f.claims)
	}
}

// drop forgets a file that is gone.
func (t *tree) drop(rel string) {
	f := t.files[rel]
	if f == nil {
		return
	}
	for _, g := range f.groups {
		t.views[g].replace(f.claims, nil)
	}
	delete(t.files, rel)
	delete(t.flawed, rel)
}

// putGroups takes over a groups.yaml; one with errors leaves the groups as they
// are.
func (t *tree) putGroups(f *loaded, name string, data []byte) {
	g, findings := parseGroups(name, data)
	f.findings = findings
	t.groupsFile = f
	if g != nil {
		t.setGroups(g)
	}
}

// dropGroups goes back to one group.
func (t *tree) dropGroups() {
	t.groupsFile = nil
	t.setGroups(nil)
}

// undecided reports that there is a groups.yaml but none of its versions could
// be read so far. Nothing must be served then: every node would get everything.
func (t *tree) undecided() bool { return t.groupsFile != nil && t.groups == nil && !t.decided }

// setGroups moves every file's claims to the groups that get it now.
func (t *tree) setGroups(g *groups) {
	t.groups, t.full = g, true
	names := g.names()
	for n := range t.views {
		if !slices.Contains(names, n) {
			delete(t.views, n)
		}
	}
	for _, n := range names {
		if t.views[n] == nil {
			t.views[n] = newView(n, t.strict)
		}
	}
	for _, f := range t.files {
		before := f.groups
		f.groups = g.of(f.rel)
		for _, n := range before {
			if v := t.views[n]; v != nil && !slices.Contains(f.groups, n) {
				v.replace(f.claims, nil)
			}
		}
		for _, n := range f.groups {
			if !slices.Contains(before, n) {
				t.views[n].replace(nil, f.claims)
			}
		}
	}
}

// batch is what the sink lacks; false if it lacks nothing.
func (t *tree) batch() (snapshot.Batch, bool) {
	b := snapshot.Batch{Full: t.full, Groups: map[string]snapshot.Changes{}}
	if t.full {
		b.GroupOf = t.groups.groupOf
	}
	for n, v := range t.views {
		v.resolve()
		if t.strict {
			v.hold()
		}
		c := v.changes(t.full)
		if t.full || len(c.Set)+len(c.Remove) > 0 {
			b.Groups[n] = c
		} else {
			v.accepted() // nothing that a client would notice
		}
	}
	return b, len(b.Groups) > 0
}

// accepted notes that the sink took the last batch.
func (t *tree) accepted() {
	t.full, t.decided = false, true
	for _, v := range t.views {
		v.accepted()
	}
}
