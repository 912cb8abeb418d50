package file

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/validate"
)

// Load reads a directory once. The batch holds everything that can be served;
// the findings say what cannot, and what is doubtful. If there is a groups.yaml
// with errors the batch holds nothing. The error says that the directory itself
// cannot be read.
func Load(dir string, opts ...Option) (snapshot.Batch, []validate.Finding, error) {
	s, err := New(dir, opts...)
	if err != nil {
		return snapshot.Batch{}, nil, err
	}
	r := newReload(s, nil, &watcher{})
	r.lookAround(time.Time{}) // long ago, so that nothing is waited for
	if r.rootErr != nil {
		return snapshot.Batch{}, nil, dirError(r.rootErr)
	}
	r.takeAll()
	b := snapshot.Batch{Full: true, GroupOf: (&groups{}).groupOf}
	if !r.undecided() {
		b, _ = r.tree.batch()
		r.tree.accepted()
	}
	return b, r.findings(), nil
}

// takeAll takes over every pending file. One that changes under the reader's
// eyes is read again, but not for ever.
func (r *reload) takeAll() {
	for range 100 {
		rels := slices.Sorted(maps.Keys(r.pending))
		for i, l := range r.examine(rels, time.Now()) {
			if l.outcome != unfinished {
				delete(r.pending, rels[i])
				r.take(rels[i], l)
			}
		}
	}
	for rel := range r.pending {
		r.failed[rel] = errors.New("the file changes while it is being read")
	}
	clear(r.pending)
}
