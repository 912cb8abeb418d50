package apiv2

import (
	"errors"
	"fmt"
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// rule says in fields that v2 has what a v3 message says in others, or leaves the
// message as it is; then the field is found to be unknown.
type rule func(proto.Message) error

func rules() map[protoreflect.FullName]rule {
	return map[protoreflect.FullName]rule{
		"envoy.config.core.v3.ConfigSource":                        on(configSource),
		"envoy.config.core.v3.HealthCheck.HttpHealthCheck":         on(httpHealthCheck),
		"envoy.config.cluster.v3.Cluster":                          on(cluster),
		"envoy.config.route.v3.HeaderMatcher":                      on(headerMatcher),
		"envoy.config.route.v3.WeightedCluster":                    on(weightedCluster),
		"envoy.type.matcher.v3.RegexMatcher":                       on(regexMatcher),
		"envoy.extensions.access_loggers.file.v3.FileAccessLog":    on(fileAccessLog),
		"envoy.config.listener.v3.QuicProtocolOptions":             refuse("QUIC"),
		"envoy.config.bootstrap.v3.Bootstrap":                      refuse("a bootstrap"),
		"envoy.extensions.transport_sockets.quic.v3.QuicTransport": refuse("QUIC"),
	}
}

func on[M proto.Message](f func(M) error) rule {
	return func(m proto.Message) error {
		if own, ok := m.(M); ok {
			return f(own)
		}
		return nil
	}
}

// refuse is for what has the numbers of v2's fields with another meaning.
func refuse(what string) rule {
	return func(proto.Message) error { return errors.New(what + " cannot be said in v2 of the API") }
}

// configSource makes what comes from the same server come in v2 as well: that is
// what a source without a version means there. What a file or another server has
// stays what it is.
//
//nolint:staticcheck // the fields of v2
func configSource(s *corev3.ConfigSource) error {
	switch from := s.GetConfigSourceSpecifier().(type) {
	case *corev3.ConfigSource_Ads, *corev3.ConfigSource_Self:
		s.ResourceApiVersion = corev3.ApiVersion_AUTO
	case *corev3.ConfigSource_PathConfigSource:
		if from.PathConfigSource.GetWatchedDirectory() == nil {
			s.ConfigSourceSpecifier = &corev3.ConfigSource_Path{Path: from.PathConfigSource.GetPath()}
		}
	}
	return nil
}

// httpHealthCheck refuses what Envoy never did in v2, and what is one message
// there.
func httpHealthCheck(h *corev3.HealthCheck_HttpHealthCheck) error {
	if len(h.GetReceive()) > 0 {
		return &Error{Path: "receive", Msg: "it cannot be said in v2 of the API"}
	}
	return nil
}

// regexMatcher names the engine, which v2 requires.
//
//nolint:staticcheck // the fields of v2
func regexMatcher(m *matcherv3.RegexMatcher) error {
	if m.GetEngineType() == nil {
		m.EngineType = &matcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &matcherv3.RegexMatcher_GoogleRE2{}}
	}
	return nil
}

// weightedCluster says what the weights add up to, which is 100 in v2 if nothing is
// said.
//
//nolint:staticcheck // the fields of v2
func weightedCluster(w *routev3.WeightedCluster) error {
	if w.GetTotalWeight() != nil {
		return nil
	}
	total := uint64(0)
	for _, c := range w.GetClusters() {
		total += uint64(c.GetWeight().GetValue())
	}
	if total == 0 || total > math.MaxUint32 {
		return &Error{Path: "clusters", Msg: "v2 of the API needs weights of a sum from 1 to 2^32-1"}
	}
	w.TotalWeight = wrapperspb.UInt32(uint32(total))
	return nil
}

//nolint:staticcheck // the fields of v2
func headerMatcher(h *routev3.HeaderMatcher) error {
	m := h.GetStringMatch()
	if m == nil || m.GetIgnoreCase() {
		return nil
	}
	switch p := m.GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_ExactMatch{ExactMatch: p.Exact}
	case *matcherv3.StringMatcher_Prefix:
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_PrefixMatch{PrefixMatch: p.Prefix}
	case *matcherv3.StringMatcher_Suffix:
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_SuffixMatch{SuffixMatch: p.Suffix}
	case *matcherv3.StringMatcher_SafeRegex:
		h.HeaderMatchSpecifier = &routev3.HeaderMatcher_SafeRegexMatch{SafeRegexMatch: p.SafeRegex}
	}
	return nil
}

//nolint:staticcheck // the fields of v2
func fileAccessLog(l *filelogv3.FileAccessLog) error {
	f := l.GetLogFormat()
	if f == nil || f.GetOmitEmptyValues() || f.GetContentType() != "" || len(f.GetFormatters()) > 0 || f.GetJsonFormatOptions() != nil {
		return nil
	}
	switch t := f.GetFormat().(type) {
	case *corev3.SubstitutionFormatString_TextFormat:
		l.AccessLogFormat = &filelogv3.FileAccessLog_Format{Format: t.TextFormat}
	case *corev3.SubstitutionFormatString_TextFormatSource:
		if s, ok := t.TextFormatSource.GetSpecifier().(*corev3.DataSource_InlineString); ok {
			l.AccessLogFormat = &filelogv3.FileAccessLog_Format{Format: s.InlineString}
		}
	case *corev3.SubstitutionFormatString_JsonFormat:
		l.AccessLogFormat = &filelogv3.FileAccessLog_TypedJsonFormat{TypedJsonFormat: t.JsonFormat}
	}
	return nil
}

const httpOptions = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// cluster moves the options of HTTP to the fields of v2, which v3 still has, and says
// how long to wait for connections, which the first Envoys of v2 require.
//
//nolint:staticcheck // the fields of v2
func cluster(c *clusterv3.Cluster) error {
	if c.GetConnectTimeout() == nil {
		c.ConnectTimeout = durationpb.New(5 * time.Second)
	}
	a, ok := c.GetTypedExtensionProtocolOptions()[httpOptions]
	if !ok {
		return nil
	}
	path := fmt.Sprintf("typed_extension_protocol_options[%q]", httpOptions)
	var o httpv3.HttpProtocolOptions
	if err := a.UnmarshalTo(&o); err != nil {
		return &Error{Path: path, Msg: err.Error()}
	}
	rest, _ := proto.Clone(&o).(*httpv3.HttpProtocolOptions)
	rest.CommonHttpProtocolOptions, rest.UpstreamHttpProtocolOptions, rest.UpstreamProtocolOptions = nil, nil, nil
	if left := firstField(rest); left != "" {
		return &Error{Path: path + "." + left, Msg: "it cannot be said in v2 of the API"}
	}
	if err := httpVersion(c, &o); err != nil {
		return under(path, err)
	}
	c.CommonHttpProtocolOptions = o.GetCommonHttpProtocolOptions()
	c.UpstreamHttpProtocolOptions = o.GetUpstreamHttpProtocolOptions()
	delete(c.TypedExtensionProtocolOptions, httpOptions)
	return nil
}

func firstField(m proto.Message) string {
	name := ""
	m.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		name = string(fd.Name())
		return false
	})
	return name
}

//nolint:staticcheck // the fields of v2
func httpVersion(c *clusterv3.Cluster, o *httpv3.HttpProtocolOptions) error {
	var h1 *corev3.Http1ProtocolOptions
	var h2 *corev3.Http2ProtocolOptions
	switch p := o.GetUpstreamProtocolOptions().(type) {
	case *httpv3.HttpProtocolOptions_ExplicitHttpConfig_:
		e := p.ExplicitHttpConfig
		if e.GetHttp3ProtocolOptions() != nil {
			return &Error{Path: "explicit_http_config.http3_protocol_options", Msg: "v2 of the API has no HTTP/3"}
		}
		h1, h2 = e.GetHttpProtocolOptions(), e.GetHttp2ProtocolOptions()
	case *httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig:
		d := p.UseDownstreamProtocolConfig
		if d.GetHttp3ProtocolOptions() != nil {
			return &Error{Path: "use_downstream_protocol_config.http3_protocol_options", Msg: "v2 of the API has no HTTP/3"}
		}
		h1, h2 = d.GetHttpProtocolOptions(), d.GetHttp2ProtocolOptions()
		if h2 == nil {
			h2 = &corev3.Http2ProtocolOptions{} // without them v2 allows HTTP/1 only
		}
		c.ProtocolSelection = clusterv3.Cluster_USE_DOWNSTREAM_PROTOCOL
	case *httpv3.HttpProtocolOptions_AutoConfig:
		return &Error{Path: "auto_config", Msg: "v2 of the API has no choice of protocol by ALPN"}
	}
	c.HttpProtocolOptions, c.Http2ProtocolOptions = h1, h2
	return nil
}
