package xdsserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"
	api "github.com/envoyproxy/go-control-plane/envoy/api/v2"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// restVariant marks what belongs to clients that poll. The protocol machine
// never sees it: to that a poll is a short SotW stream.
const restVariant wire.Variant = 2

func variantWord(v wire.Variant) string {
	if v == restVariant {
		return "rest"
	}
	return v.String()
}

var (
	errNotLoaded = newStatus(codes.Unavailable, "the configuration has not been loaded yet")
	errTooFast   = newStatus(codes.ResourceExhausted, "the client polls faster than it may")
)

// poll answers one discovery request; nil means that the client has everything
// (XR-03).
func (s *Server) poll(ctx context.Context, m method, body []byte) ([]byte, error) {
	r, node, err := s.readPoll(ctx, m, body)
	if err != nil {
		return nil, err
	}
	m = m.carries(r.TypeURL)
	c := s.pollers.find(s, pollerKey{node.ID, node.Cluster, m.only, hashNames(r.Names)}, m)
	if !c.allow() {
		return nil, errTooFast
	}
	s.counters.of(m.only, restVariant).requests.Add(1)
	c.take(r, node, peerOf(ctx).String())
	var hold <-chan time.Time
	if d := s.cfg.restHold; d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		hold = t.C
	}
	for {
		changed := s.pollers.changes() // before the look, so that nothing is missed
		draining := s.draining()
		group, view := s.locate(node)
		if view == nil {
			return nil, errNotLoaded
		}
		a, err := c.answer(r, node, group, view)
		if err != nil {
			return nil, err
		}
		if a != nil {
			return s.deliver(c, m, node, a)
		}
		if hold == nil || draining {
			return nil, nil
		}
		select {
		case <-changed:
		case <-hold:
			return nil, nil
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// readPoll reads and checks a request, which always has to hold everything
// (XR-05).
func (s *Server) readPoll(ctx context.Context, m method, body []byte) (*request, *xds.Node, error) {
	if s.draining() {
		return nil, nil, errDraining
	}
	var in proto.Message = &discoveryv3.DiscoveryRequest{}
	if m.v2 {
		in = &api.DiscoveryRequest{}
	}
	if err := readJSON(body, in); err != nil {
		return nil, nil, err
	}
	data, err := proto.Marshal(in)
	if err != nil {
		return nil, nil, statusOf(err)
	}
	r, err := decode(wire.Sotw, m.v2, string(data)) // one reading of the fields for both transports
	if err == nil {
		err = r.takeNames()
	}
	if err != nil {
		return nil, nil, statusOf(err)
	}
	if r.TypeURL != "" && m.carries(r.TypeURL).only != r.TypeURL {
		return nil, nil, status.Errorf(codes.InvalidArgument, "type_url %q at a path that stands for %s", r.TypeURL, m.only)
	}
	r.TypeURL, r.Digest = m.carries(r.TypeURL).only, 0
	node := xds.NodeFromProto(r.node)
	if s.cfg.requireNode && node.Empty() {
		return nil, nil, errNoNode
	}
	return r, node, s.authorize(ctx, m.path, node)
}

// deliver encodes an answer and counts it.
func (s *Server) deliver(c *poller, m method, node *xds.Node, a *pollAnswer) ([]byte, error) {
	resp := *a.resp
	resp.Resources = s.inForm(resp.TypeURL, node.Supports(xds.FeatureRequireAnyStruct), resp.Resources)
	if m.v2 {
		resp.Errors = nil // XV-06
	}
	body, err := s.restEncoder.encode(&resp, a.version)
	if err != nil {
		c.stream.log.Error("a client's poll cannot be answered", "type", resp.TypeURL, "error", err)
		return nil, err
	}
	n := s.counters.of(resp.TypeURL, restVariant)
	n.responses.Add(1)
	n.resources.Add(uint64(len(resp.Resources)))
	n.bytes.Add(uint64(len(body)))
	return body, nil
}

// draining reports whether the server is being shut down.
func (s *Server) draining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// pollAnswer is a full answer.
type pollAnswer struct {
	resp    *wire.Response
	version string
	wire    *wire.Stream
}

// evaluate is what a snapshot has for a request: everything it names, whatever
// its type (XR-06).
func (s *Server) evaluate(m method, node *xds.Node, view *snapshot.Snapshot, r *request) (*pollAnswer, error) {
	cfg := s.wireConfig(m, node, func() *snapshot.Snapshot { return view })
	cfg.AlwaysFirst, cfg.MaxResponse = true, 1<<30
	if s.cfg.restAll {
		known := cfg.Types
		cfg.Types = func(u string) (xds.Type, bool) { t, ok := known(u); t.Wildcard = true; return t, ok }
	}
	a := &pollAnswer{wire: wire.NewStream(cfg)}
	first := wire.Request{TypeURL: m.only, Names: r.Names}
	if _, err := a.wire.Request(time.Now(), &first); err != nil {
		if e, ok := errors.AsType[*wire.StreamError](err); ok && e.Code == wire.ResourceExhausted {
			return nil, &httpError{http.StatusRequestEntityTooLarge, codes.ResourceExhausted, e.Msg}
		}
		return nil, statusOf(err)
	}
	a.wire.Publish(view)
	a.resp = a.wire.Next(time.Now())
	if a.resp == nil { // nothing was asked for, or nothing of it exists
		a.resp = &wire.Response{TypeURL: m.only}
	}
	whole := len(a.resp.Errors) == 0 && cfg.Deny == nil && s.isWildcard(m.only, r.Names)
	a.version = pollVersion(view.Set(canonical(m.only)), r.Names, a.resp, whole)
	return a, nil
}

// isWildcard reports whether a request asks for everything there is of a type.
func (s *Server) isWildcard(typeURL string, names []string) bool {
	return (s.types[typeURL].Wildcard || s.cfg.restAll) && (len(names) == 0 || len(names) == 1 && names[0] == "*")
}

// pollVersion is the version of an answer. For all of a type it is that of the
// set. Otherwise it follows from what was asked for and what is answered: were
// it the set's as well, a client that asks for a further name would be told that
// it has everything, and one whose resources did not change would get them again
// with every change of others.
func pollVersion(set *snapshot.Set, names []string, resp *wire.Response, whole bool) string {
	if whole {
		return set.Version()
	}
	h := xxhash.New()
	write := func(parts ...string) {
		for _, p := range parts {
			_, _ = h.WriteString(strconv.Itoa(len(p)))
			_, _ = h.WriteString(":")
			_, _ = h.WriteString(p)
		}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	write(strconv.Itoa(len(names)))
	write(names...)
	lines := make([][2]string, 0, len(resp.Resources))
	for _, r := range resp.Resources {
		lines = append(lines, [2]string{r.Name(), r.Version()})
	}
	slices.SortFunc(lines, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, l := range lines {
		write(l[:]...)
	}
	for _, e := range resp.Errors {
		write("error", e.Name, e.Message)
	}
	return "r" + strconv.FormatUint(h.Sum64(), 36)
}
