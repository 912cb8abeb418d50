package client

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Field numbers of responses that both variants share, of the Resource in a
// delta response, and of Any.
const (
	responseVersion   = 1
	responseResources = 2
	responseTypeURL   = 4
	responseNonce     = 5
	deltaRemoved      = 6

	resourceVersion = 1
	resourceBody    = 2
	resourceName    = 3

	anyTypeURL = 1
	anyValue   = 2

	bodyName = 1 // Cluster.name and ClusterLoadAssignment.cluster_name
)

// ErrContent is wrapped by the errors about a response that does not fit what
// the server was to hold.
var ErrContent = errors.New("wrong content")

// session is the xDS side of one stream: what it holds, and the response that
// is being read. It belongs to the loop.
type session struct {
	fleet *Fleet
	conn  *conn
	held  [resources.Kinds]holding
	// resuming says that the stream was opened with everything held, so that
	// any response, however empty, completes it.
	resuming bool
	response response
}

// holding is what a stream has of one kind.
type holding struct {
	have     []uint64 // a bit for each resource
	count    int
	complete bool
}

// response is the part of a response that matters, as far as it has been read.
type response struct {
	envelope       resources.Kind
	typed          bool
	version, nonce []byte
	// resources counts the resources of each kind; only one may be there.
	resources [resources.Kinds]int
	hit       bool
}

func (r *response) reset() {
	*r = response{version: r.version[:0], nonce: r.nonce[:0]}
}

func (h *holding) add(i, of int) {
	if h.have == nil {
		h.have = make([]uint64, (of+63)/64)
	}
	if bit := uint64(1) << (i % 64); h.have[i/64]&bit == 0 {
		h.have[i/64] |= bit
		h.count++
	}
}

// field implements messageSink.
func (s *session) field(n protowire.Number, v []byte) error {
	r := &s.response
	switch n {
	case responseVersion:
		r.version = append(r.version[:0], v...)
	case responseNonce:
		r.nonce = append(r.nonce[:0], v...)
	case responseTypeURL:
		r.envelope, r.typed = resources.KindOf(v)
		if !r.typed {
			return fmt.Errorf("%w: a response of type %q", ErrContent, v)
		}
	case responseResources:
		return s.resource(v)
	case deltaRemoved:
		if s.fleet.plan.Delta {
			return fmt.Errorf("%w: %q was removed", ErrContent, v)
		}
	}
	return nil
}

// item is one resource of a response.
type item struct {
	kind                resources.Kind
	name, version, body []byte
}

func (s *session) resource(b []byte) error {
	it, err := s.item(b)
	if err != nil {
		return err
	}
	f := s.fleet
	i, ok := resources.Index(it.name)
	if !ok || i >= f.plan.Clusters {
		return fmt.Errorf("%w: %s resource %q", ErrContent, it.kind, it.name)
	}
	s.response.resources[it.kind]++
	if h := &s.held[it.kind]; !h.complete {
		h.add(i, f.plan.Clusters)
	}
	if err := f.versions.note(it, i); err != nil {
		return err
	}
	if e := f.wave; e != nil && e.kind == it.kind && e.index == i {
		gen, err := resources.Generation(it.kind, it.body)
		if err != nil {
			return fmt.Errorf("%w: %q: %w", ErrContent, it.name, err)
		}
		s.response.hit = gen == e.gen
	}
	return nil
}

// item reads a resource of either variant.
func (s *session) item(b []byte) (it item, err error) {
	body := b
	if s.fleet.plan.Delta {
		for f, err := range resources.Fields(b) {
			if err != nil {
				return it, err
			}
			switch f.Number {
			case resourceName:
				it.name = f.Bytes
			case resourceVersion:
				it.version = f.Bytes
			case resourceBody:
				body = f.Bytes
			}
		}
	}
	for f, err := range resources.Fields(body) {
		if err != nil {
			return it, err
		}
		switch f.Number {
		case anyTypeURL:
			k, ok := resources.KindOf(f.Bytes)
			if !ok {
				return it, fmt.Errorf("%w: a resource of type %q", ErrContent, f.Bytes)
			}
			it.kind = k
		case anyValue:
			it.body = f.Bytes
		}
	}
	if it.name == nil {
		it.name, err = nameOf(it.body)
	}
	return it, err
}

func nameOf(body []byte) ([]byte, error) {
	for f, err := range resources.Fields(body) {
		if err != nil {
			return nil, err
		}
		if f.Number == bodyName {
			return f.Bytes, nil
		}
	}
	return nil, fmt.Errorf("%w: a resource without a name", ErrContent)
}

// endOfMessage implements messageSink: the response is complete.
func (s *session) endOfMessage() error {
	r := &s.response
	if err := s.check(); err != nil {
		return err
	}
	f := s.fleet
	f.count.note(r)
	if s.conn.stuck == notStuck {
		s.conn.send(f.requests.acknowledge(r.envelope, r.version, r.nonce)...)
	}
	s.progress(r.envelope)
	if r.hit {
		f.wave.arrive(s, f.now, r.resources[r.envelope])
	}
	r.reset()
	return nil
}

// check holds the response against what every response must fulfil.
func (s *session) check() error {
	r := &s.response
	if !r.typed || len(r.nonce) == 0 {
		return fmt.Errorf("%w: a response without type URL or nonce", ErrContent)
	}
	for k, n := range r.resources {
		if n > 0 && resources.Kind(k) != r.envelope {
			return fmt.Errorf("%w: %d %s resources in a response of kind %s", ErrContent, n, resources.Kind(k), r.envelope)
		}
	}
	full := !s.fleet.plan.Delta && r.envelope == resources.CDS
	if n := r.resources[r.envelope]; full && n != s.fleet.plan.Clusters {
		return fmt.Errorf("%w: %d clusters of %d in a state-of-the-world response", ErrContent, n, s.fleet.plan.Clusters)
	}
	return nil
}

// progress takes note that a stream has all of a kind, and asks for the next.
func (s *session) progress(k resources.Kind) {
	h, f := &s.held[k], s.fleet
	if h.complete || h.count < f.plan.Clusters && !s.resuming {
		return
	}
	h.complete, h.have = true, nil
	if k == resources.CDS && f.plan.EDS {
		s.conn.send(f.requests.subscribe(resources.EDS, s.versions(resources.EDS))...)
		if !s.resuming {
			return
		}
	}
	f.ready.arrive(s, f.now, 0)
}

// versions is what the stream says it holds of a kind.
func (s *session) versions(k resources.Kind) []byte {
	if !s.resuming {
		return nil
	}
	return s.fleet.versions.encoded(k)
}
