// Package edge holds the connection manager's rules for the heads of requests
// and responses, as pure functions: who the client is, what an outsider may not
// say, what the proxy adds, and which paths and hosts are taken
// (Envoy's source/common/http/conn_manager_utility.cc).
package edge

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"

	"github.com/xebec-proxy/xebec/filter"
)

// Env is what rules are built with.
type Env struct {
	// LocalCluster and LocalNode are the node's cluster and id.
	LocalCluster, LocalNode string
	// AcceptFragments cuts a fragment off a path instead of refusing the request:
	// the runtime key envoy.reloadable_features.http_reject_path_with_fragment is
	// false (HC-40). It may change; nil is no.
	AcceptFragments func() bool
	Logger          *slog.Logger
}

// Rules are a connection manager's rules; immutable, safe for concurrent use.
type Rules struct {
	useRemote    bool
	skipAppend   bool
	hops         int
	internal     *internalAddresses
	appendPort   bool
	schemeTo     string
	via          string
	server       string
	serverMode   hcmv3.HttpConnectionManager_ServerHeaderTransformation
	userAgent    bool
	localCluster string
	localNode    string

	requestID    bool
	keepExternal bool
	answerID     bool
	packTrace    bool

	normalize     bool
	mergeSlash    bool
	escaped       hcmv3.HttpConnectionManager_PathWithEscapedSlashesAction
	fragments     func() bool // or nil
	stripMatch    bool
	stripAny      bool
	stripDot      bool
	proxy100      bool
	clientCerts   clientCerts
	sets          sets
	plainPathOnly bool // no path rule but the fragment's
}

// New reads the rules from a connection manager. Errors name the field.
func New(c *hcmv3.HttpConnectionManager, env *Env) (*Rules, error) {
	r := &Rules{
		useRemote: c.GetUseRemoteAddress().GetValue(), skipAppend: c.GetSkipXffAppend(), hops: int(c.GetXffNumTrustedHops()),
		appendPort: c.GetAppendXForwardedPort(), via: c.GetVia(), server: c.GetServerName(), serverMode: c.GetServerHeaderTransformation(),
		userAgent: c.GetAddUserAgent().GetValue(), localCluster: env.LocalCluster, localNode: env.LocalNode,
		requestID:    c.GetGenerateRequestId() == nil || c.GetGenerateRequestId().GetValue(),
		keepExternal: c.GetPreserveExternalRequestId(), answerID: c.GetAlwaysSetRequestIdInResponse(), packTrace: true,
		normalize: c.GetNormalizePath().GetValue(), mergeSlash: c.GetMergeSlashes(), escaped: c.GetPathWithEscapedSlashesAction(),
		stripMatch: c.GetStripMatchingHostPort(), stripAny: c.GetStripAnyHostPort(), stripDot: c.GetStripTrailingHostDot(),
		proxy100: c.GetProxy_100Continue(), fragments: env.AcceptFragments, sets: newSets(),
	}
	r.plainPathOnly = !r.normalize && !r.mergeSlash && r.escaped <= hcmv3.HttpConnectionManager_KEEP_UNCHANGED
	if r.server == "" {
		r.server = "envoy"
	}
	r.clientCerts.read(c)
	return r, errors.Join(r.checkPorts(), r.readScheme(c.GetSchemeHeaderTransformation()), r.readInternal(c), r.readRequestID(c))
}

func (r *Rules) checkPorts() error {
	if r.stripMatch && r.stripAny {
		return errors.New("strip_any_host_port: Error: Only one of `strip_matching_host_port` or `strip_any_host_port` can be set.") //nolint:staticcheck,revive // Envoy's text
	}
	return nil
}

func (r *Rules) readScheme(s *corev3.SchemeHeaderTransformation) error {
	// match_upstream is the router's: it knows the upstream connection.
	r.schemeTo = s.GetSchemeToOverwrite()
	return nil
}

// internalAddresses is internal_address_config; nil means no address is
// internal (HC-32).
type internalAddresses struct {
	unix   bool
	ranges []netip.Prefix
}

func (a *internalAddresses) has(addr *filter.Address) bool {
	if a == nil {
		return false
	}
	if !addr.IP.IsValid() {
		return a.unix && addr.Pipe != ""
	}
	ip := addr.IP.Addr()
	for _, p := range a.ranges {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// defaultInternal are the internal addresses of a configuration without
// ranges: the private ones of RFC 1918 and RFC 4193 (of which only fd00::/8 is
// assigned) and the two loopback addresses, exactly as Envoy has them.
func defaultInternal() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.1/32", "::1/128", "fd00::/8"} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

func (r *Rules) readInternal(c *hcmv3.HttpConnectionManager) error {
	cfg := c.GetInternalAddressConfig()
	if cfg == nil {
		return nil
	}
	a := &internalAddresses{unix: cfg.GetUnixSockets()}
	for i, cr := range cfg.GetCidrRanges() {
		p, err := netip.ParsePrefix(fmt.Sprintf("%s/%d", cr.GetAddressPrefix(), cr.GetPrefixLen().GetValue()))
		if err != nil {
			return fmt.Errorf("internal_address_config.cidr_ranges[%d]: invalid ip/mask combo '%s/%d' (format is <ip>/<# mask bits>)", i, cr.GetAddressPrefix(), cr.GetPrefixLen().GetValue())
		}
		a.ranges = append(a.ranges, p.Masked())
	}
	if len(a.ranges) == 0 {
		a.ranges = defaultInternal()
	}
	r.internal = a
	return nil
}

func (r *Rules) readRequestID(c *hcmv3.HttpConnectionManager) error {
	ext := c.GetRequestIdExtension()
	if ext.GetTypedConfig() == nil {
		return nil
	}
	var m uuidv3.UuidRequestIdConfig
	if err := ext.GetTypedConfig().UnmarshalTo(&m); err != nil {
		return fmt.Errorf("request_id_extension.typed_config: Didn't find a registered implementation for type: '%s'", strings.TrimPrefix(ext.GetTypedConfig().GetTypeUrl(), "type.googleapis.com/"))
	}
	r.packTrace = m.GetPackTraceReason() == nil || m.GetPackTraceReason().GetValue()
	return nil
}
