package xdsserver

import (
	"errors"
	"maps"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/mem"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
)

// Held is what a server keeps for its clients.
type Held struct{ Streams, Groups, Interests, Waiting, Nodes int }

// Held counts what the server keeps.
func (s *Server) Held() Held {
	s.nodes.mu.Lock()
	h := Held{Nodes: len(s.nodes.nodes)}
	s.nodes.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Streams, h.Groups = len(s.streams), len(s.groups)
	for _, g := range s.groups {
		g.mu.Lock()
		for _, ti := range g.index {
			ti.wild.each(&g.seats, func(*stream) { h.Interests++ })
			h.Interests += len(ti.names) + len(ti.globs)
		}
		for x := range g.seats.each {
			h.Waiting += x.pending.count
		}
		g.mu.Unlock()
	}
	return h
}

// ApplyWith is Apply, with meanwhile called between planning and doing.
func (s *Server) ApplyWith(b snapshot.Batch, meanwhile func()) error {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	steps, err := s.plan(b)
	defer s.unpin(steps)
	if err != nil {
		return err
	}
	meanwhile()
	for _, x := range s.carryOut(b, steps) {
		x.wake()
	}
	return nil
}

// Encode is a response's bytes.
func Encode(identifier string, canary bool, v wire.Variant, r *wire.Response) ([]byte, error) {
	e, err := newEncoder(identifier, canary, newCounters(maps.Keys(map[string]bool{})))
	if err != nil {
		return nil, err
	}
	data := e.encode(v, false, r)
	defer data.Free()
	return data.Materialize(), nil
}

// Decoded is a request as the server understands it.
type Decoded struct {
	wire.Request
	Node *corev3.Node
}

// ErrLocators is the error for what is valid but not supported.
func ErrLocators(err error) bool { return errors.Is(err, errLocators) }

// Decode reads a request, names included.
func Decode(v wire.Variant, data string) (*Decoded, error) {
	r, err := decode(v, false, data)
	if err == nil && v == wire.Sotw {
		err = r.takeNames()
	}
	if err != nil {
		return nil, err
	}
	return &Decoded{Request: r.Request, Node: r.node}, nil
}

// Receive is what the codec makes of a request that came in pieces.
func Receive(pieces ...[]byte) (string, error) {
	var data mem.BufferSlice
	for _, p := range pieces {
		data = append(data, mem.SliceBuffer(p))
	}
	var in incoming
	err := newCodec(&room{}).Unmarshal(data, &in)
	return in.data, err
}
