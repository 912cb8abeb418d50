package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// stream polls for one type.
type stream struct {
	t    *Transport
	ctx  context.Context //nolint:containedctx // it is the stream's life, as xdsclient.Transport has it
	typ  xds.Type
	path string
	node *corev3.Node
	news chan struct{} // holds one: what is wanted has changed
	next time.Time     // the next poll; of the reader

	mu      sync.Mutex
	names   []string // wanted, as last told; sorted
	begun   bool     // something was asked for
	named   bool     // by name: from then on no names mean nothing, not everything
	version string   // last accepted
	asked   []string // what version is an answer to, and was wanted ever since
	nonce   string   // of the last answer
	problem string   // why that was rejected; empty if it was not
}

// Send notes what is wanted, and what became of the last answer. It takes effect
// with the next poll (XR-11).
func (s *stream) Send(r *client.Request) error {
	if r.TypeURL != s.typ.URL {
		return fmt.Errorf("a request for %s on a stream that polls for %s", xds.Kind(r.TypeURL), s.typ.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Answer {
		s.nonce, s.problem = r.Nonce, r.Error
		if r.Error == "" {
			s.version = r.Version
		}
	}
	s.begun, s.named, s.names = true, s.named || len(r.Names) > 0, r.Names
	s.asked = common(s.asked, r.Names) // what is given up is forgotten
	select {
	case s.news <- struct{}{}:
	default:
	}
	return nil
}

// Recv polls until there is something new.
func (s *stream) Recv() (*client.Response, error) {
	for {
		if err := s.wait(); err != nil {
			return nil, err
		}
		body, names, err := s.request()
		if err != nil {
			return nil, err
		}
		r, err := s.poll(body)
		s.next = time.Now().Add(s.t.delay())
		if err != nil {
			return nil, err
		}
		if r == nil {
			continue
		}
		s.mu.Lock()
		s.asked = common(names, s.names)
		s.mu.Unlock()
		return r, nil
	}
}

// wait waits for the time of the next poll, and for something to ask for.
func (s *stream) wait() error {
	t := time.NewTimer(time.Until(s.next))
	defer t.Stop()
	for due := t.C; ; {
		if due == nil && s.wanting() {
			return nil
		}
		select {
		case <-due:
			due = nil
		case <-s.news:
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		}
	}
}

func (s *stream) wanting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names) > 0 || s.begun && s.typ.Wildcard && !s.named
}

// request is the body of a poll, and the names in it. It is complete by itself.
func (s *stream) request() (body []byte, names []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: s.typ.URL, ResourceNames: s.names, ResponseNonce: s.nonce}
	if s.typ.Wildcard && slices.Equal(s.names, []string{"*"}) {
		m.ResourceNames = nil // which every server understands
	}
	// A server whose version says nothing of names would answer that nothing has
	// changed to a client that asks for more of them.
	if s.version != "" && covers(s.asked, s.names) {
		m.VersionInfo = s.version
	}
	if s.problem != "" {
		m.ErrorDetail = &statuspb.Status{Code: int32(codes.InvalidArgument), Message: strings.ToValidUTF8(s.problem, "\uFFFD")}
	}
	body, err = protojson.MarshalOptions{UseProtoNames: true, Resolver: s.t.cfg.Types}.Marshal(m)
	if err != nil {
		return nil, nil, fmt.Errorf("the request has no JSON form: %w", err)
	}
	return body, s.names, nil
}

// common are the names of a sorted list that another one has too.
func common(list, sorted []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(n string) bool {
		_, ok := slices.BinarySearch(sorted, n)
		return !ok
	})
}

// covers reports whether all of the names are in a sorted list.
func covers(sorted, names []string) bool {
	return !slices.ContainsFunc(names, func(n string) bool {
		_, ok := slices.BinarySearch(sorted, n)
		return !ok
	})
}

// poll posts a request. Its response is nil if nothing has changed, or if the
// answer cannot be read; then the next poll says so.
func (s *stream) poll(body []byte) (*client.Response, error) {
	turn := s.t.present()
	to := s.t.targets[turn]
	data, err := s.post(to, body)
	if err != nil {
		if s.ctx.Err() == nil {
			s.t.failed(turn)
		}
		return nil, fmt.Errorf("polling %s%s: %w", to.base, s.path, err)
	}
	if data == nil {
		return nil, nil
	}
	r, nonce, err := s.read(data)
	if err == nil {
		return r, nil
	}
	s.mu.Lock()
	known := s.problem == err.Error()
	s.nonce, s.problem = nonce, err.Error()
	s.mu.Unlock()
	if !known {
		s.t.cfg.Logger.Warn("an answer cannot be read", "server", to.base, "type", s.typ.Kind, "nonce", nonce, "reason", err)
	}
	return nil, nil
}

// post is the body of the answer; nil for 304.
func (s *stream) post(to target, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.ctx, s.t.cfg.RequestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.base+s.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := to.rt.RoundTrip(req) // redirects are not followed: they are failures
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	limit := s.t.cfg.MaxResponseBytes
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case resp.StatusCode == http.StatusNotModified:
		return nil, s.mayBeUnmodified()
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answered %d (%s): %s", resp.StatusCode, http.StatusText(resp.StatusCode), excerpt(data))
	case err != nil:
		return nil, fmt.Errorf("reading the answer: %w", err)
	case int64(len(data)) > limit:
		return nil, fmt.Errorf("the answer is larger than %d bytes", limit)
	case len(data) == 0:
		return nil, errors.New("the server answered 200 without a body")
	}
	return data, nil
}

// mayBeUnmodified is an error if there is nothing that could be unmodified.
func (s *stream) mayBeUnmodified() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version == "" && s.problem == "" {
		return errors.New("the server answered 304, though it was not told that the client holds anything")
	}
	return nil
}

// excerpt is the beginning of a text, on one line.
func excerpt(b []byte) string {
	const atMost = 300
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(b[:min(len(b), atMost)]), "")), " ")
	return cmp.Or(text, "no reason given")
}

// read turns JSON into a response. The nonce is there with an error too, if it
// can be found.
func (s *stream) read(data []byte) (r *client.Response, nonce string, err error) {
	var m discoveryv3.DiscoveryResponse
	opts := protojson.UnmarshalOptions{DiscardUnknown: true, Resolver: s.t.cfg.Types}
	if err := opts.Unmarshal(data, &m); err != nil {
		return nil, findNonce(data), fmt.Errorf("the answer is no DiscoveryResponse in JSON: %w", err)
	}
	if m.GetTypeUrl() == "" {
		m.TypeUrl = s.typ.URL
	}
	if m.GetTypeUrl() != s.typ.URL {
		return nil, m.GetNonce(), fmt.Errorf("the answer is of type %q, not %q", m.GetTypeUrl(), s.typ.URL)
	}
	wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(&m)
	if err == nil {
		r, err = message.Sotw(wire) // one reading of the fields for every transport
	}
	return r, m.GetNonce(), err
}

// findNonce looks for the nonce in what could not be read as a whole.
func findNonce(data []byte) string {
	var head struct {
		Nonce string `json:"nonce"`
	}
	if json.Unmarshal(data, &head) != nil {
		return ""
	}
	return head.Nonce
}
