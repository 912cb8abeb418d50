package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xebec-proxy/xebec/xdsclient/clientstatus"
)

// statusPath is the path of FetchClientStatus over REST (XD-08). It is not among
// the endpoints that Envoy lists.
const statusPath = "/v3/discovery:client_status"

// calls are the gRPC services of the endpoints, on their port: CSDS.
type calls struct {
	server *grpc.Server
	status *clientstatus.Service
}

func newCalls(v View) calls {
	c := calls{server: grpc.NewServer(), status: clientstatus.New(v.ClientStatus)}
	statusv3.RegisterClientStatusDiscoveryServiceServer(c.server, c.status)
	return c
}

func isCall(r *http.Request) bool {
	return r.ProtoMajor == 2 && r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// call answers a gRPC call. A stream may last as long as the connection does.
func (s *Server) call(w http.ResponseWriter, r *http.Request) {
	if !s.allowed(r.URL.RequestURI()) {
		h := w.Header()
		h.Set("Content-Type", "application/grpc")
		h.Set("Grpc-Status", fmt.Sprint(uint32(codes.PermissionDenied)))
		h.Set("Grpc-Message", "admin.allow_paths does not allow "+r.URL.Path)
		w.WriteHeader(http.StatusOK)
		return
	}
	deadlines := http.NewResponseController(w)
	if err := errors.Join(deadlines.SetReadDeadline(time.Time{}), deadlines.SetWriteDeadline(time.Time{})); err != nil {
		s.o.Logger.Debug("a stream has a deadline", "error", err)
	}
	s.calls.server.ServeHTTP(w, r)
}

// maxStatusRequest bounds a request for the status.
const maxStatusRequest = 1 << 20

// clientStatus is CSDS over REST: a ClientStatusRequest in, a
// ClientStatusResponse out, both as JSON.
func (s *Server) clientStatus(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxStatusRequest))
	req := &statusv3.ClientStatusRequest{}
	if err == nil && len(body) > 0 {
		err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, req)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "the body is no ClientStatusRequest in JSON: "+err.Error()+"\n")
		return
	}
	out, err := s.calls.status.FetchClientStatus(r.Context(), req)
	switch {
	case status.Code(err) == codes.InvalidArgument:
		refuse(w, http.StatusBadRequest, status.Convert(err).Message()+"\n")
	case err != nil:
		s.failed(w, r, err)
	default:
		s.json(w, r, out, set)
	}
}
