package xdsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	statusv2 "github.com/envoyproxy/go-control-plane/envoy/service/status/v2"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// RESTCall maps a path to a unary method that is served elsewhere, such as that
// of health discovery (XR-12).
type RESTCall struct {
	// Path is where it is posted to, such as "/v3/discovery:health_check".
	Path string
	// Method is the full gRPC method, for the auth gate.
	Method string
	// New makes an empty request, Call answers one. An error is a gRPC status.
	New  func() proto.Message
	Call func(ctx context.Context, req proto.Message) (proto.Message, error)
}

// How long a client may take to send a body and to take an answer.
const (
	restReadTime  = 30 * time.Second
	restWriteTime = time.Minute
)

const restPrefix, restPrefixV2 = "/v3/discovery:", "/v2/discovery:"

// restTargets maps unary methods to the last part of the path that stands for them
// (specification, section 1).
func restTargets() map[string]string {
	return map[string]string{
		"FetchListeners": "listeners", "FetchRoutes": "routes", "FetchScopedRoutes": "scoped-routes", "FetchClusters": "clusters",
		"FetchEndpoints": "endpoints", "FetchSecrets": "secrets", "FetchRuntime": "runtime", "FetchExtensionConfigs": "extension_configs",
	}
}

// restHandler serves JSON over HTTP. It is immutable.
type restHandler struct {
	srv    *Server
	routes map[string]restRoute
}

// restRoute answers the body of one POST; a nil answer is 304.
type restRoute struct {
	method string
	answer func(ctx context.Context, body []byte) ([]byte, error)
}

// RESTHandler serves discovery as JSON over HTTP, by POST (XR-01): the v3 and v2
// paths of every type that has one, and CSDS; further calls as given. It asks the same
// auth gate as gRPC, with the method that a path stands for and, in its
// context, the peer and the headers as gRPC has them. Peers without a
// google.golang.org/grpc/peer in the request's context get one from the request.
//
// Clients that poll are listed by Clients, with the variant "rest", until they
// have not come back for a while.
func (s *Server) RESTHandler(calls ...RESTCall) http.Handler {
	h := &restHandler{srv: s, routes: map[string]restRoute{}}
	parts := restTargets()
	add := func(prefix string, svc service, v2 bool) {
		if part, ok := parts[svc.fetch]; ok && svc.name != "" {
			m := method{path: "/" + svc.name + "/" + svc.fetch, only: svc.only, v2: v2}
			h.routes[prefix+part] = restRoute{m.path, func(ctx context.Context, body []byte) ([]byte, error) { return s.poll(ctx, m, body) }}
		}
	}
	for _, svc := range services() {
		add(restPrefix, svc, false)
		add(restPrefixV2, svc.inV2(), true)
	}
	csds := &clientStatus{srv: s}
	old := &clientStatusV2{clients: csds}
	calls = append(calls, RESTCall{
		Path: restPrefixV2 + "client_status", Method: statusv2.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName,
		New: func() proto.Message { return &statusv2.ClientStatusRequest{} },
		Call: func(_ context.Context, req proto.Message) (proto.Message, error) {
			return old.respond(req.(*statusv2.ClientStatusRequest))
		},
	}, RESTCall{
		Path: restPrefix + "client_status", Method: statusv3.ClientStatusDiscoveryService_FetchClientStatus_FullMethodName,
		New: func() proto.Message { return &statusv3.ClientStatusRequest{} },
		Call: func(_ context.Context, req proto.Message) (proto.Message, error) {
			return csds.respond(req.(*statusv3.ClientStatusRequest))
		},
	})
	for _, c := range calls {
		h.routes[c.Path] = restRoute{c.Method, c.answer}
	}
	return h
}

func (c RESTCall) answer(ctx context.Context, body []byte) ([]byte, error) {
	req := c.New()
	if err := readJSON(body, req); err != nil {
		return nil, err
	}
	resp, err := c.Call(ctx, req)
	if err != nil {
		return nil, err
	}
	data, err := protojson.Marshal(resp)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "the answer has no JSON form: %v", err)
	}
	return data, nil
}

// readJSON takes names of either spelling and ignores unknown fields (XR-02).
func readJSON(body []byte, m proto.Message) error {
	if len(body) == 0 {
		return status.Error(codes.InvalidArgument, "the body is empty; post the request as JSON")
	}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, m); err != nil {
		return status.Errorf(codes.InvalidArgument, "the body is no %s in JSON: %v", m.ProtoReflect().Descriptor().Name(), err)
	}
	return nil
}

// httpError is an error with an HTTP status of its own.
type httpError struct {
	status int
	code   codes.Code
	msg    string
}

func (e *httpError) Error() string { return e.msg }

// ServeHTTP implements http.Handler.
func (h *restHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	body, err := h.serve(w, r) //nolint:contextcheck // the request brings it
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(restWriteTime))
	switch {
	case err != nil:
		h.refuse(w, err)
	case body == nil:
		w.WriteHeader(http.StatusNotModified)
	default:
		writeJSON(w, http.StatusOK, body)
	}
}

func (h *restHandler) serve(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	route, ok := h.routes[r.URL.Path]
	switch {
	case !ok:
		return nil, &httpError{http.StatusNotFound, codes.NotFound, notFound(r)}
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		return nil, &httpError{http.StatusMethodNotAllowed, codes.Unimplemented, "requests are posted (POST), not " + r.Method}
	}
	if err := jsonBody(r.Header); err != nil {
		return nil, err
	}
	ctx := restContext(r, route.method)
	calls := h.srv.calls.Add(1)
	defer h.srv.calls.Add(-1)
	if n := h.srv.cfg.limits.MaxStreams; n > 0 && calls > int64(n) {
		h.srv.counters.refused.Add(1)
		return nil, errTooManyStreams
	}
	if err := h.srv.authorize(ctx, route.method, nil); err != nil {
		h.srv.counters.refused.Add(1)
		return nil, err
	}
	body, err := h.read(w, r)
	if err != nil {
		return nil, err
	}
	return route.answer(ctx, body)
}

// notFound says what there is instead of what was asked for (XR-07).
func notFound(r *http.Request) string {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return "this HTTP/2 connection began with a REST request and carries only those; use another one for gRPC"
	}
	path := r.URL.Path
	part, v3 := strings.CutPrefix(path, restPrefix)
	v2 := false
	if !v3 {
		part, v2 = strings.CutPrefix(path, restPrefixV2)
	}
	if !v3 && !v2 {
		return "there is nothing at this path; discovery is at " + restPrefix + "clusters, " + restPrefix + "listeners and so on"
	}
	switch {
	case v2 && strings.Contains(part, "extension"):
		return "v2 of the API has no extension configurations (ECDS); ask " + restPrefix + part
	case strings.Contains(part, "aggregated"):
		return "aggregated discovery (ADS) has no REST form; use gRPC, or one path for each type"
	case strings.HasPrefix(part, "delta"):
		return "incremental discovery (delta) has no REST form; use gRPC"
	case (strings.Contains(part, "virtual") || strings.Contains(part, "vhds")):
		return "virtual hosts (VHDS) have no REST form; use gRPC"
	case (strings.Contains(part, "localit") || strings.Contains(part, "leds")):
		return "locality endpoints (LEDS) have no REST form; use gRPC"
	}
	return "there is nothing at this path; discovery is at " + restPrefix + "clusters, " + restPrefix + "listeners and so on"
}

func jsonBody(h http.Header) error {
	if e := h.Get("Content-Encoding"); e != "" && e != "identity" {
		return &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the body must not be encoded, and it is: " + strconv.Quote(e)}
	}
	text := h.Get("Content-Type")
	if text == "" {
		return nil
	}
	if t, _, err := mime.ParseMediaType(text); err != nil || t != "application/json" {
		return &httpError{http.StatusUnsupportedMediaType, codes.InvalidArgument, "the content type must be application/json, not " + strconv.Quote(text)}
	}
	return nil
}

func (h *restHandler) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := h.srv.cfg.limits.MaxRequestBytes
	if limit == 0 {
		limit = defaultMaxRequest
	}
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Now().Add(restReadTime)) // not every transport has deadlines
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	_ = ctl.SetReadDeadline(time.Time{})
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, &httpError{http.StatusRequestEntityTooLarge, codes.ResourceExhausted, fmt.Sprintf("the body is larger than %d bytes", limit)}
	}
	if err != nil {
		return nil, &httpError{http.StatusBadRequest, codes.InvalidArgument, "the body could not be read: " + err.Error()}
	}
	return body, nil
}

// refuse answers with an error as google.rpc.Status in JSON (XR-08).
func (h *restHandler) refuse(w http.ResponseWriter, err error) {
	st := status.Convert(statusOf(err))
	code := httpStatus(st.Code())
	if own, ok := errors.AsType[*httpError](err); ok {
		st, code = status.New(own.code, own.msg), own.status
	}
	if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	body, err := protojson.Marshal(st.Proto())
	if err != nil { // details that cannot be shown, or bytes of the client's
		body, _ = protojson.Marshal(status.New(st.Code(), strings.ToValidUTF8(st.Message(), "\uFFFD")).Proto())
	}
	writeJSON(w, code, body)
}

func writeJSON(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body) // a client that has gone is no news
}

// httpStatus is the usual counterpart of a gRPC code.
func httpStatus(c codes.Code) int {
	switch c {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.OutOfRange:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.Unimplemented:
		return http.StatusNotImplemented
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	case codes.DeadlineExceeded:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

// restContext is what hooks and services expect of a gRPC call.
func restContext(r *http.Request, fullMethod string) context.Context {
	ctx := r.Context()
	if _, ok := peer.FromContext(ctx); !ok {
		p := &peer.Peer{Addr: remoteAddr(r.RemoteAddr)}
		if r.TLS != nil {
			p.AuthInfo = credentials.TLSInfo{
				State: *r.TLS, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
			}
		}
		ctx = peer.NewContext(ctx, p)
	}
	md := metadata.MD{":authority": {r.Host}}
	for k, v := range r.Header {
		md.Append(k, v...)
	}
	ctx = metadata.NewIncomingContext(ctx, md)
	return grpc.NewContextWithServerTransportStream(ctx, restStream(fullMethod))
}

// remoteAddr is a client's address as net/http gives it.
type remoteAddr string

func (remoteAddr) Network() string  { return "tcp" }
func (a remoteAddr) String() string { return string(a) }

// restStream tells services which method they serve. Their headers go nowhere.
type restStream string

func (s restStream) Method() string             { return string(s) }
func (restStream) SetHeader(metadata.MD) error  { return nil }
func (restStream) SendHeader(metadata.MD) error { return nil }
func (restStream) SetTrailer(metadata.MD) error { return nil }
