package file

import iradix "github.com/hashicorp/go-immutable-radix/v2"

// states are the states of all files as they were reported last, and what has changed
// since. A report costs what has changed, not what there is.
type states struct {
	reported *iradix.Tree[File]
	touched  map[string]struct{}
	all      bool // other groups may get anything
}

func newStates() states {
	return states{reported: iradix.New[File](), touched: map[string]struct{}{}, all: true}
}

// touch notes that a file may have another state.
func (s *states) touch(rel string) {
	s.touched[rel] = struct{}{}
	s.all = s.all || rel == GroupsFile
}

// update gives the present states.
func (s *states) update(r *reload) *iradix.Tree[File] {
	if s.all {
		s.reported = iradix.New[File]()
		for _, rel := range r.known() {
			s.touched[rel] = struct{}{}
		}
	}
	txn := s.reported.Txn()
	for rel := range s.touched {
		if f := r.file(rel); f != nil {
			txn.Insert([]byte(rel), r.state(rel, f))
		} else {
			txn.Delete([]byte(rel))
		}
	}
	s.reported = txn.Commit()
	clear(s.touched)
	s.all = false
	return s.reported
}

func (r *reload) state(rel string, f *loaded) File {
	err := r.failed[rel]
	if err == nil {
		err = joinErrors(f.findings)
	}
	return File{Path: r.path(rel), Loaded: f.at, Resources: f.usable, Groups: f.groups, Err: err}
}

// listed are the states in the order of the paths.
func listed(t *iradix.Tree[File]) []File {
	if t == nil {
		return nil
	}
	l := make([]File, 0, t.Len())
	for it := t.Root().Iterator(); ; {
		_, f, ok := it.Next()
		if !ok {
			return l
		}
		l = append(l, f)
	}
}
