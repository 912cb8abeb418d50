package accesslog

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
	"github.com/xebec-proxy/xebec/internal/fraction"
)

// condition tells whether a stream's line is written. It is immutable.
type condition func(c *format.Context) bool

// newFilter compiles a filter; nil passes all (AL-14).
func (e *Env) newFilter(path string, f *accesslogv3.AccessLogFilter) (condition, error) {
	switch s := f.GetFilterSpecifier().(type) {
	case nil:
		if f == nil {
			return nil, nil //nolint:nilnil // no filter
		}
	case *accesslogv3.AccessLogFilter_StatusCodeFilter:
		return e.comparison(path+".status_code_filter", s.StatusCodeFilter.GetComparison(), func(c *format.Context) uint64 {
			if c.Info == nil {
				return 0
			}
			return uint64(max(c.Info.ResponseCode, 0))
		})
	case *accesslogv3.AccessLogFilter_DurationFilter:
		return e.comparison(path+".duration_filter", s.DurationFilter.GetComparison(), func(c *format.Context) uint64 {
			return uint64(max(c.Duration(), 0) / time.Millisecond)
		})
	case *accesslogv3.AccessLogFilter_NotHealthCheckFilter:
		return func(c *format.Context) bool { return c.Info == nil || !c.Info.HealthCheck }, nil
	case *accesslogv3.AccessLogFilter_TraceableFilter:
		return nil, errors.New(path + ".traceable_filter: tracing is not built; remove the filter")
	case *accesslogv3.AccessLogFilter_RuntimeFilter:
		return e.sampled(s.RuntimeFilter), nil
	case *accesslogv3.AccessLogFilter_AndFilter:
		all, err := e.filters(path+".and_filter.filters", s.AndFilter.GetFilters())
		return func(c *format.Context) bool {
			return !slices.ContainsFunc(all, func(f condition) bool { return !f(c) })
		}, err
	case *accesslogv3.AccessLogFilter_OrFilter:
		all, err := e.filters(path+".or_filter.filters", s.OrFilter.GetFilters())
		return func(c *format.Context) bool {
			return slices.ContainsFunc(all, func(f condition) bool { return f(c) })
		}, err
	case *accesslogv3.AccessLogFilter_HeaderFilter:
		match, err := route.HeaderMatch(path+".header_filter.header", s.HeaderFilter.GetHeader(), route.Env{})
		var none header.Map
		return func(c *format.Context) bool {
			if c.Req == nil {
				return match(&none)
			}
			return match(c.Req)
		}, err
	case *accesslogv3.AccessLogFilter_ResponseFlagFilter:
		return flagged(path+".response_flag_filter", s.ResponseFlagFilter)
	case *accesslogv3.AccessLogFilter_GrpcStatusFilter:
		return grpcStatus(s.GrpcStatusFilter), nil
	case *accesslogv3.AccessLogFilter_MetadataFilter:
		return inMetadata(path+".metadata_filter", s.MetadataFilter)
	case *accesslogv3.AccessLogFilter_LogTypeFilter:
		return logType(s.LogTypeFilter), nil
	case *accesslogv3.AccessLogFilter_ExtensionFilter:
		return nil, fmt.Errorf("%s.extension_filter: the filter %q (%s) is not built; remove it", path, s.ExtensionFilter.GetName(),
			s.ExtensionFilter.GetTypedConfig().GetTypeUrl())
	}
	return nil, fmt.Errorf("%s: the filter has no kind; write one, such as status_code_filter", path)
}

func (e *Env) filters(path string, list []*accesslogv3.AccessLogFilter) ([]condition, error) {
	out := make([]condition, 0, len(list))
	var errs []error
	for i, f := range list {
		m, err := e.newFilter(path+"["+strconv.Itoa(i)+"]", f)
		if err == nil && m == nil {
			err = fmt.Errorf("%s[%d]: the filter is empty", path, i)
		}
		errs = append(errs, err)
		out = append(out, m)
	}
	return out, errors.Join(errs...)
}

// comparison compares with a number that the runtime may change.
func (e *Env) comparison(path string, f *accesslogv3.ComparisonFilter, get func(*format.Context) uint64) (condition, error) {
	value, key, runtime := uint64(f.GetValue().GetDefaultValue()), f.GetValue().GetRuntimeKey(), e.RuntimeInteger
	if f.GetValue() == nil {
		return nil, errors.New(path + ".comparison.value: a value is needed")
	}
	limit := func() uint64 {
		if key == "" || runtime == nil {
			return value
		}
		if v, ok := runtime(key); ok {
			return v
		}
		return value
	}
	switch f.GetOp() {
	case accesslogv3.ComparisonFilter_EQ:
		return func(c *format.Context) bool { return get(c) == limit() }, nil
	case accesslogv3.ComparisonFilter_GE:
		return func(c *format.Context) bool { return get(c) >= limit() }, nil
	case accesslogv3.ComparisonFilter_LE:
		return func(c *format.Context) bool { return get(c) <= limit() }, nil
	case accesslogv3.ComparisonFilter_NE:
		return func(c *format.Context) bool { return get(c) != limit() }, nil
	}
	return nil, fmt.Errorf("%s.comparison.op: %d is no operation; write EQ, GE, LE or NE", path, f.GetOp())
}

// sampled passes a share of the requests: the same ones in all proxies that see
// a request id, unless independent randomness is asked for.
func (e *Env) sampled(f *accesslogv3.RuntimeFilter) condition {
	numerator, denominator := fraction.Of(f.GetPercentSampled())
	key, independent, runtime := f.GetRuntimeKey(), f.GetUseIndependentRandomness(), e.Runtime
	random := e.Random
	if random == nil {
		random = rand.Uint64
	}
	return func(c *format.Context) bool {
		n, d := numerator, denominator
		if runtime != nil {
			if a, b, ok := runtime(key); ok && b != 0 {
				n, d = uint64(a), uint64(b)
			}
		}
		if !independent {
			if v, ok := pivot(c); ok {
				return v%d < n
			}
		}
		return random()%d < n
	}
}

// pivot is the number that a request id starts with.
func pivot(c *format.Context) (uint64, bool) {
	const digits = 8
	id := ""
	if c.Req != nil {
		id = c.Req.GetID(header.XRequestID)
	}
	if len(id) < digits {
		return 0, false
	}
	v, err := strconv.ParseUint(id[:digits], 16, 64)
	return v, err == nil
}

// flagged passes streams with one of the flags, or with any if none is named.
func flagged(path string, f *accesslogv3.ResponseFlagFilter) (condition, error) {
	want := filter.Flags(0)
	for i, name := range f.GetFlags() {
		flag := filter.FlagByName(name)
		if flag == 0 {
			return nil, fmt.Errorf("%s.flags[%d]: %q is no response flag", path, i, name)
		}
		want |= flag
	}
	if len(f.GetFlags()) == 0 {
		want = math.MaxUint64
	}
	return func(c *format.Context) bool { return c.Info != nil && c.Info.Flags.Has(want) }, nil
}

func grpcStatus(f *accesslogv3.GrpcStatusFilter) condition {
	var set uint32
	for _, s := range f.GetStatuses() {
		set |= 1 << uint32(s) //nolint:gosec // 0 to 16
	}
	exclude := f.GetExclude()
	return func(c *format.Context) bool {
		s := c.AnyGRPCStatus()
		return (s >= 0 && set&(1<<s) != 0) != exclude
	}
}

// inMetadata matches a value of the dynamic metadata. A value that is not there
// is decided by match_if_key_not_found, which is true by default.
func inMetadata(path string, f *accesslogv3.MetadataFilter) (condition, error) {
	missing := f.GetMatchIfKeyNotFound() == nil || f.GetMatchIfKeyNotFound().GetValue()
	m := f.GetMatcher()
	if m == nil {
		return func(*format.Context) bool { return missing }, nil
	}
	if m.GetInvert() {
		return nil, errors.New(path + ".matcher.invert: Envoy takes it and does nothing; remove it")
	}
	match, err := route.ValueMatch(path+".matcher.value", m.GetValue(), route.Env{})
	if err != nil {
		return nil, err
	}
	namespace := m.GetFilter()
	keys := make([]string, len(m.GetPath()))
	for i, p := range m.GetPath() {
		keys[i] = p.GetKey()
	}
	return func(c *format.Context) bool {
		if c.Info == nil {
			return missing
		}
		s := c.Info.Metadata[namespace]
		var v *structpb.Value
		for _, k := range keys {
			if v = s.GetFields()[k]; v == nil {
				return missing
			}
			s = v.GetStructValue()
		}
		if v == nil {
			return missing
		}
		return match(v)
	}, nil
}

func logType(f *accesslogv3.LogTypeFilter) condition {
	names := make([]string, len(f.GetTypes()))
	for i, t := range f.GetTypes() {
		names[i] = t.String()
	}
	exclude := f.GetExclude()
	return func(c *format.Context) bool {
		t := c.LogType
		if t == "" {
			t = "NotSet"
		}
		return slices.Contains(names, t) != exclude
	}
}
