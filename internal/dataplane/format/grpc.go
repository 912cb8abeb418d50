package format

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/xebec-proxy/xebec/filter/header"
)

// invalidCode stands for a grpc-status that is no number.
const invalidCode = -1

func grpcStatus(t *token, _ *Options) (*op, error) {
	var name func(int64) string
	switch t.param {
	case "", "CAMEL_STRING":
		name = camelName
	case "SNAKE_STRING":
		name = snakeName
	case "NUMBER":
		return grpcNumber(), nil
	default:
		return nil, fmt.Errorf("GrpcStatusFormatter only supports CAMEL_STRING, SNAKE_STRING or NUMBER. Got: %s", t.param)
	}
	return &op{text: func(dst []byte, c *Context) ([]byte, bool) {
		v, ok := c.GRPCStatus()
		if !ok {
			return dst, false
		}
		if n := name(v); n != "" {
			return append(dst, n...), true
		}
		return strconv.AppendInt(dst, v, 10), true
	}}, nil
}

func grpcNumber() *op { return &op{number: (*Context).GRPCStatus} }

// GRPCStatus is the status of a gRPC request: of the trailers, else of the
// head, else what the HTTP status stands for; false if the request is not gRPC.
// -1 is a status that is no number.
func (c *Context) GRPCStatus() (int64, bool) {
	if c.Req == nil || !c.Req.HasID(header.Path) || !IsGRPC(c.Req.GetID(header.ContentType)) {
		return 0, false
	}
	if s, ok := c.sentStatus(); ok {
		return s, true
	}
	if c.Info == nil || c.Info.ResponseCode == 0 {
		return 0, false
	}
	return fromHTTP(c.Info.ResponseCode), true
}

// AnyGRPCStatus is GRPCStatus for any request, as filters of access logs see
// it: a status is made of the HTTP status of what is not gRPC, and one that gRPC
// does not know is -1.
func (c *Context) AnyGRPCStatus() int64 {
	const largest = 16
	if s, ok := c.sentStatus(); ok {
		if s > largest {
			return invalidCode
		}
		return s
	}
	if c.Info == nil {
		return fromHTTP(0)
	}
	return fromHTTP(c.Info.ResponseCode)
}

// sentStatus is grpc-status.
func (c *Context) sentStatus() (int64, bool) {
	for _, m := range [...]*header.Map{c.RespTrailers, c.Resp} {
		if m == nil {
			continue
		}
		if s := m.GetID(header.GRPCStatus); s != "" {
			v, err := strconv.ParseUint(s, 10, 63)
			if err != nil {
				return invalidCode, true
			}
			return int64(v), true
		}
	}
	return 0, false
}

// IsGRPC tells whether a content type is gRPC's: application/grpc, or that with
// a suffix behind a plus.
func IsGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+')
}

// fromHTTP is gRPC's mapping of HTTP statuses.
func fromHTTP(code int) int64 {
	const unknown, permissionDenied, unimplemented, internal, unavailable, unauthenticated = 2, 7, 12, 13, 14, 16
	switch code {
	case 400:
		return internal
	case 401:
		return unauthenticated
	case 403:
		return permissionDenied
	case 404:
		return unimplemented
	case 429, 502, 503, 504:
		return unavailable
	}
	return unknown
}

func grpcNames(v int64) [2]string {
	names := [...][2]string{
		{"OK", "OK"},
		{"Canceled", "CANCELLED"},
		{"Unknown", "UNKNOWN"},
		{"InvalidArgument", "INVALID_ARGUMENT"},
		{"DeadlineExceeded", "DEADLINE_EXCEEDED"},
		{"NotFound", "NOT_FOUND"},
		{"AlreadyExists", "ALREADY_EXISTS"},
		{"PermissionDenied", "PERMISSION_DENIED"},
		{"ResourceExhausted", "RESOURCE_EXHAUSTED"},
		{"FailedPrecondition", "FAILED_PRECONDITION"},
		{"Aborted", "ABORTED"},
		{"OutOfRange", "OUT_OF_RANGE"},
		{"Unimplemented", "UNIMPLEMENTED"},
		{"Internal", "INTERNAL"},
		{"Unavailable", "UNAVAILABLE"},
		{"DataLoss", "DATA_LOSS"},
		{"Unauthenticated", "UNAUTHENTICATED"},
	}
	if v < 0 || v >= int64(len(names)) {
		return [2]string{}
	}
	return names[v]
}

func camelName(v int64) string { return grpcNames(v)[0] }
func snakeName(v int64) string { return grpcNames(v)[1] }
