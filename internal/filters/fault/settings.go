package fault

import (
	"errors"
	"fmt"
	"math"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/fraction"
)

// part is a share of the requests.
type part struct{ n, d uint64 }

func partOf(p *typev3.FractionalPercent) part {
	n, d := fraction.Of(p)
	return part{n, d}
}

// settings are the filter's configuration, or a route's; immutable.
type settings struct {
	abort *abort
	delay *delay
	rate  *rate

	cluster  string
	nodes    map[string]bool
	headers  []func(*header.Map) bool
	max      uint64
	peerless bool // no statistics by downstream cluster
	metadata *structpb.Struct

	delayPercentKey, abortPercentKey, delayKey, statusKey, grpcKey, maxKey, rateKey string
}

// abort is FaultAbort: a status, a gRPC status or what headers ask for.
type abort struct {
	share  part
	byHead bool
	status uint64
	grpc   uint64
	isGRPC bool
	body   string
}

// delay is FaultDelay.
type delay struct {
	share  part
	byHead bool
	fixed  time.Duration
}

// rate is FaultRateLimit.
type rate struct {
	share  part
	byHead bool
	kbps   uint64
}

func parse(c *faultv3.HTTPFault) (*settings, error) {
	if err := c.ValidateAll(); err != nil {
		return nil, fmt.Errorf("fault: %w", err)
	}
	s := &settings{
		cluster: c.GetUpstreamCluster(), max: math.MaxUint64,
		peerless: c.GetDisableDownstreamClusterStats(), metadata: c.GetFilterMetadata(),
		delayPercentKey: or(c.GetDelayPercentRuntime(), "fault.http.delay.fixed_delay_percent"),
		abortPercentKey: or(c.GetAbortPercentRuntime(), "fault.http.abort.abort_percent"),
		delayKey:        or(c.GetDelayDurationRuntime(), "fault.http.delay.fixed_duration_ms"),
		statusKey:       or(c.GetAbortHttpStatusRuntime(), "fault.http.abort.http_status"),
		grpcKey:         or(c.GetAbortGrpcStatusRuntime(), "fault.http.abort.grpc_status"),
		maxKey:          or(c.GetMaxActiveFaultsRuntime(), "fault.http.max_active_faults"),
		rateKey:         or(c.GetResponseRateLimitPercentRuntime(), "fault.http.rate_limit.response_percent"),
	}
	if v := c.GetMaxActiveFaults(); v != nil {
		s.max = uint64(v.GetValue())
	}
	for _, n := range c.GetDownstreamNodes() {
		if s.nodes == nil {
			s.nodes = map[string]bool{}
		}
		s.nodes[n] = true
	}
	var errs [4]error
	s.abort, errs[0] = parseAbort(c.GetAbort())
	s.delay, errs[1] = parseDelay(c.GetDelay())
	s.rate, errs[2] = parseRate(c.GetResponseRateLimit())
	s.headers, errs[3] = parseHeaders(c.GetHeaders())
	return s, errors.Join(errs[:]...)
}

func or(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func parseAbort(c *faultv3.FaultAbort) (*abort, error) {
	if c == nil {
		return nil, nil
	}
	a := &abort{share: partOf(c.GetPercentage()), body: or(c.GetResponseBody(), "fault filter abort")}
	switch e := c.GetErrorType().(type) {
	case *faultv3.FaultAbort_HttpStatus:
		a.status = uint64(e.HttpStatus)
	case *faultv3.FaultAbort_GrpcStatus:
		a.grpc, a.isGRPC = uint64(e.GrpcStatus), true
	case *faultv3.FaultAbort_HeaderAbort_:
		a.byHead = true
	default:
		return nil, errors.New("abort.error_type: write http_status, grpc_status or header_abort")
	}
	return a, nil
}

func parseDelay(c *commonfaultv3.FaultDelay) (*delay, error) {
	if c == nil {
		return nil, nil
	}
	d := &delay{share: partOf(c.GetPercentage())}
	switch e := c.GetFaultDelaySecifier().(type) {
	case *commonfaultv3.FaultDelay_FixedDelay:
		d.fixed = e.FixedDelay.AsDuration()
	case *commonfaultv3.FaultDelay_HeaderDelay_:
		d.byHead = true
	default:
		return nil, errors.New("delay.fault_delay_secifier: write fixed_delay or header_delay")
	}
	return d, nil
}

func parseRate(c *commonfaultv3.FaultRateLimit) (*rate, error) {
	if c == nil {
		return nil, nil
	}
	r := &rate{share: partOf(c.GetPercentage())}
	switch e := c.GetLimitType().(type) {
	case *commonfaultv3.FaultRateLimit_FixedLimit_:
		r.kbps = e.FixedLimit.GetLimitKbps()
	case *commonfaultv3.FaultRateLimit_HeaderLimit_:
		r.byHead = true
	default:
		return nil, errors.New("response_rate_limit.limit_type: write fixed_limit or header_limit")
	}
	return r, nil
}

func parseHeaders(list []*routev3.HeaderMatcher) ([]func(*header.Map) bool, error) {
	var out []func(*header.Map) bool
	var errs []error
	for i, m := range list {
		f, err := route.HeaderMatch(fmt.Sprintf("headers[%d]", i), m, route.Env{})
		out, errs = append(out, f), append(errs, err)
	}
	return out, errors.Join(errs...)
}
