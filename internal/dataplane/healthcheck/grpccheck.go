package healthcheck

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xebec-proxy/xebec/filter/header"
)

// grpcConfig is a grpc_health_check.
type grpcConfig struct {
	authority string
	add       []headerChange
	message   []byte // HealthCheckRequest with its prefix
}

// maxGRPCBody is more than any answer to Check has.
const maxGRPCBody = 64 << 10

func readGRPC(g *corev3.HealthCheck_GrpcHealthCheck, clusterName string) (*grpcConfig, error) {
	add, err := readHeaders("initial_metadata", g.GetInitialMetadata())
	c := &grpcConfig{authority: g.GetAuthority(), add: add}
	if c.authority == "" {
		c.authority = clusterName
	}
	var m []byte
	if s := g.GetServiceName(); s != "" {
		m = protowire.AppendTag(m, 1, protowire.BytesType)
		m = protowire.AppendString(m, s)
	}
	c.message = binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))) //nolint:gosec // of a configuration
	c.message = append(c.message, m...)
	return c, err
}

// request asks grpc.health.v1.Health/Check.
func (c *grpcConfig) request(hostname, scheme string, timeout time.Duration) *request {
	r := &request{method: "POST", body: c.message, keep: maxGRPCBody}
	if hostname == "" {
		hostname = c.authority
	}
	h := &r.head
	h.AddID(header.Method, "POST")
	h.AddID(header.Scheme, scheme)
	h.AddID(header.Authority, hostname)
	h.AddID(header.Path, "/grpc.health.v1.Health/Check")
	h.AddID(header.TE, "trailers")
	h.AddID(header.ContentType, "application/grpc")
	h.AddID(header.UserAgent, userAgent)
	change(h, nil, c.add)
	h.SetID(header.GRPCTimeout, grpcTimeout(timeout))
	return r
}

// grpcTimeout writes a timeout in at most eight digits.
func grpcTimeout(d time.Duration) string {
	const most = 99999999
	n := min(d.Milliseconds(), math.MaxInt64)
	for _, u := range []struct {
		name string
		next int64
	}{{"m", 1000}, {"S", 60}, {"M", 60}} {
		if n <= most {
			return strconv.FormatInt(n, 10) + u.name
		}
		n /= u.next
	}
	return strconv.FormatInt(min(n, most), 10) + "H"
}

// judge is what an answer means (HK-05): anything but SERVING takes the host out at
// once.
func (c *grpcConfig) judge(a *answer) Result {
	if a.head.Status() != 200 {
		return Result{Verdict: Failed, Status: a.head.Status()}
	}
	kind, isGRPC := strings.CutPrefix(a.head.GetID(header.ContentType), "application/grpc")
	if !isGRPC || kind != "" && kind[0] != '+' || !a.hasTrailers || a.trailers.GetID(header.GRPCStatus) != "0" {
		return Result{Verdict: Failed}
	}
	if status, err := serving(a.body); err != nil || status != 1 {
		return Result{Verdict: Failed}
	}
	return Result{Verdict: Passed}
}

var errMessage = errors.New("the answer is not one HealthCheckResponse")

// serving reads the status of the only message of a body.
func serving(body []byte) (status uint64, err error) {
	seen := false
	for len(body) > 0 {
		if len(body) < 5 || body[0] != 0 {
			return 0, errMessage
		}
		n := uint64(binary.BigEndian.Uint32(body[1:]))
		body = body[5:]
		if n > uint64(len(body)) || n > 0 && seen {
			return 0, errMessage
		}
		if n == 0 {
			continue // nothing: as if it were not there
		}
		seen = true
		if status, err = statusOf(body[:n]); err != nil {
			return 0, err
		}
		body = body[n:]
	}
	return status, nil
}

// statusOf reads HealthCheckResponse.status.
func statusOf(m []byte) (status uint64, err error) {
	for len(m) > 0 {
		num, typ, n := protowire.ConsumeTag(m)
		if n < 0 {
			return 0, errMessage
		}
		m = m[n:]
		if num == 1 && typ == protowire.VarintType {
			status, n = protowire.ConsumeVarint(m)
		} else {
			n = protowire.ConsumeFieldValue(num, typ, m)
		}
		if n < 0 {
			return 0, errMessage
		}
		m = m[n:]
	}
	return status, nil
}
