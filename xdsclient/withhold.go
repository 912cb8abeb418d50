package xdsclient

import "sync"

// typeSet is a set of type URLs, safe for concurrent use.
type typeSet struct {
	mu  sync.Mutex
	set map[string]struct{}
}

func (t *typeSet) has(typeURL string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.set[typeURL]
	return ok
}

// put reports whether the set has changed.
func (t *typeSet) put(typeURL string, in bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.set[typeURL]; ok == in {
		return false
	}
	if !in {
		delete(t.set, typeURL)
		return true
	}
	if t.set == nil {
		t.set = map[string]struct{}{}
	}
	t.set[typeURL] = struct{}{}
	return true
}

// Withhold keeps back what the source has to say of a type, answers to its
// responses too, until [Source.Resume]. Only the first request of a stream is
// sent. Responses are worked off meanwhile. Envoy treats clusters so while they
// warm: a server that waits for each answer then sends what refers to them when
// it can be used.
//
// Unlike other methods it may be called by a type's Decode or Validate, and then
// holds for the answer to the response that is looked at. It does not block.
func (s *Source) Withhold(typeURL string) { s.withheld.put(typeURL, true) }

// Resume ends Withhold. It may be called where that may be.
func (s *Source) Resume(typeURL string) {
	if !s.withheld.put(typeURL, false) {
		return
	}
	s.post(func() {
		for _, srv := range s.servers {
			for _, l := range srv.links {
				if l.carries(typeURL) && l.state == open {
					l.urgent, l.dirty = true, true
				}
			}
		}
	})
}
