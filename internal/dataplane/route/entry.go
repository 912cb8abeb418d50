package route

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/hashpolicy"
	"github.com/xebec-proxy/xebec/internal/dataplane/subset"
	"github.com/xebec-proxy/xebec/internal/dataplane/vhoststats"
)

// Kind is what a route does with a request.
type Kind uint8

// The kinds of routes.
const (
	// Forward sends it to a cluster.
	Forward Kind = iota
	// Redirect answers with another place.
	Redirect
	// DirectResponse answers with a configured response.
	DirectResponse
)

// Entry is a route within its virtual host
// (config/route/v3/route_components.proto Route). It is immutable.
type Entry struct {
	vh       *virtualHost
	name     string
	kind     Kind
	path     pathMatcher
	when     conditions
	request  mutation
	response mutation
	filters  perFilter
	limit    *uint32
	meta     *corev3.Metadata
	counts   *vhoststats.Counts // by its stat_prefix

	clusters clusterChoice
	notFound int
	rewrite  pathRewrite
	host     hostRewrite
	timeouts Timeouts
	retry    *RetryPolicy
	high     bool
	upgrades map[string]bool
	connect  *Connect
	hash     *hashpolicy.Policy // nil without
	criteria *subset.Criteria   // nil without

	redirect *redirect
	direct   *direct
}

var _ filter.Route = (*Entry)(nil)

func (b *builder) entry(path string, r *routev3.Route, vh *virtualHost) *Entry {
	before := len(b.errs)
	b.only(path, r, "name", "match", "route", "redirect", "direct_response", "metadata", "typed_per_filter_config",
		"request_headers_to_add", "request_headers_to_remove", "response_headers_to_add", "response_headers_to_remove",
		"per_request_buffer_limit_bytes", "request_body_buffer_limit", "stat_prefix", "non_forwarding_action", "filter_action")
	e := &Entry{vh: vh, name: r.GetName(), meta: r.GetMetadata(), timeouts: defaultTimeouts()}
	if r.GetMatch() == nil {
		b.fail(path+".match", errors.New("it is missing: write at least match: {prefix: /}"))
		return nil
	}
	b.only(path+".match", r.GetMatch(), "prefix", "path", "safe_regex", "path_separated_prefix", "path_match_policy",
		"connect_matcher", "case_sensitive", "runtime_fraction", "headers", "query_parameters", "cookies", "grpc",
		"tls_context", "dynamic_metadata", "filter_state")
	e.path = b.pathMatcher(path+".match", r.GetMatch())
	e.when = b.conditions(path+".match", r.GetMatch())
	e.request = b.mutation(path, requestHeaders, r.GetRequestHeadersToAdd(), r.GetRequestHeadersToRemove())
	e.response = b.mutation(path, responseHeaders, r.GetResponseHeadersToAdd(), r.GetResponseHeadersToRemove())
	e.filters = b.perFilter(path+".typed_per_filter_config", r.GetTypedPerFilterConfig())
	e.limit = bufferLimit(r.GetRequestBodyBufferLimit(), r.GetPerRequestBufferLimitBytes()) //nolint:staticcheck // deprecated fields still work (RT-31)
	if prefix := r.GetStatPrefix(); prefix != "" {
		e.counts = b.stats(vh).Route(prefix)
	}
	b.action(path, r, e)
	if len(b.errs) > before {
		return nil
	}
	return e
}

func (b *builder) action(path string, r *routev3.Route, e *Entry) {
	switch a := r.GetAction().(type) {
	case *routev3.Route_Route:
		e.kind = Forward
		b.forward(path+".route", a.Route, e)
	case *routev3.Route_Redirect:
		e.kind = Redirect
		b.redirect(path+".redirect", a.Redirect, e)
	case *routev3.Route_DirectResponse:
		e.kind = DirectResponse
		b.direct(path+".direct_response", a.DirectResponse, e)
	case *routev3.Route_NonForwardingAction:
		b.fail(path+".non_forwarding_action", errors.New("it belongs to gRPC servers; a proxy has no service behind it, so write route, redirect or direct_response"))
	case *routev3.Route_FilterAction:
		b.fail(path+".filter_action", errors.New("filter_action is not built in this version: write route, redirect or direct_response"))
	default:
		b.fail(path, errors.New("the route has no action: write route, redirect or direct_response"))
	}
}

func (b *builder) forward(path string, a *routev3.RouteAction, e *Entry) {
	b.only(path, a, "cluster", "cluster_header", "weighted_clusters", "cluster_not_found_response_code", "prefix_rewrite",
		"regex_rewrite", "path_rewrite_policy", "path_rewrite", "host_rewrite_literal", "auto_host_rewrite",
		"host_rewrite_header", "host_rewrite_path_regex", "host_rewrite", "append_x_forwarded_host", "timeout", "idle_timeout",
		"flush_timeout", "retry_policy", "priority", "max_grpc_timeout", "grpc_timeout_offset", "upgrade_configs", "max_stream_duration",
		"hash_policy", "metadata_match")
	e.criteria = e.criteria.Merged(a.GetMetadataMatch())
	e.clusters = b.clusterChoice(path, a, e.criteria)
	e.notFound = notFoundStatus(a.GetClusterNotFoundResponseCode())
	e.rewrite = b.pathRewrite(path, a, &e.path)
	e.host = b.hostRewrite(path, a)
	e.timeouts = b.timeouts(path, a)
	e.retry = e.vh.retry
	if r := a.GetRetryPolicy(); r != nil {
		e.retry = b.retryPolicy(path+".retry_policy", r)
	}
	var err error
	if e.hash, err = hashpolicy.New(a.GetHashPolicy()); err != nil {
		b.add(fmt.Errorf("%s.hash_policy%w", path, err))
	}
	e.high = a.GetPriority() == corev3.RoutingPriority_HIGH
	for i, u := range a.GetUpgradeConfigs() {
		b.upgrade(index(path+".upgrade_configs", i), u, e)
	}
}

func (b *builder) upgrade(path string, u *routev3.RouteAction_UpgradeConfig, e *Entry) {
	b.only(path, u, "upgrade_type", "enabled", "connect_config")
	kind := strings.ToLower(u.GetUpgradeType())
	switch _, twice := e.upgrades[kind]; {
	case kind == "":
		b.fail(path+".upgrade_type", errors.New("it is empty: write for example websocket"))
	case kind == "connect-udp":
		b.fail(path+".upgrade_type", errors.New("tunnels of datagrams are not built: remove it"))
	case twice:
		b.fail(path+".upgrade_type", fmt.Errorf("Duplicate upgrade %s", u.GetUpgradeType())) //nolint:staticcheck // Envoy's text
	default:
		if e.upgrades == nil {
			e.upgrades = map[string]bool{}
		}
		e.upgrades[kind] = u.GetEnabled() == nil || u.GetEnabled().GetValue()
		b.connect(path, u, kind, e)
	}
}

func notFoundStatus(c routev3.RouteAction_ClusterNotFoundResponseCode) int {
	switch c {
	case routev3.RouteAction_NOT_FOUND:
		return 404
	case routev3.RouteAction_INTERNAL_SERVER_ERROR:
		return 500
	}
	return 503
}

func bufferLimit(n *wrapperspb.UInt64Value, old *wrapperspb.UInt32Value) *uint32 {
	switch {
	case n != nil:
		v := uint32(min(n.GetValue(), 1<<32-1))
		return &v
	case old != nil:
		v := old.GetValue()
		return &v
	}
	return nil
}

// Name is the route's name (%ROUTE_NAME%).
func (e *Entry) Name() string { return e.name }

// VirtualHost is the name of its virtual host.
func (e *Entry) VirtualHost() string { return e.vh.name }

// Cluster is the cluster it leads to if it always leads to the same, or "".
func (e *Entry) Cluster() string { return e.clusters.name }

// Kind is what the route does.
func (e *Entry) Kind() Kind { return e.kind }

// Metadata is the route's metadata, or nil (RT-25).
func (e *Entry) Metadata() *corev3.Metadata { return e.meta }

// VirtualHostMetadata is the virtual host's metadata, or nil.
func (e *Entry) VirtualHostMetadata() *corev3.Metadata { return e.vh.meta }

// ClusterNotFoundStatus is the answer when there is no such cluster (RT-14).
func (e *Entry) ClusterNotFoundStatus() int { return e.notFound }

// Retry is the retry policy of the route, else of its virtual host, or nil.
func (e *Entry) Retry() *RetryPolicy { return e.retry }

// HashPolicy is what balancers that hash take of a request (RT-24), or nil.
func (e *Entry) HashPolicy() *hashpolicy.Policy { return e.hash }

// Criteria are what hosts must have in their metadata where the request goes
// (RT-25), or nil.
func (e *Entry) Criteria(t Target) *subset.Criteria {
	if t.Weighted != nil {
		return t.Weighted.criteria
	}
	return e.criteria
}

// Priority is 0 for default and 1 for high priority (RT-26).
func (e *Entry) Priority() uint8 {
	if e.high {
		return 1
	}
	return 0
}

// Upgrade tells whether the route has an opinion on an upgrade, of whatever
// case, and which (HC-43).
func (e *Entry) Upgrade(kind string) (enabled, set bool) {
	if len(e.upgrades) == 0 {
		return false, false
	}
	enabled, set = e.upgrades[strings.ToLower(kind)]
	return enabled, set
}

// BufferLimit is how much of a request's body may be buffered, if the route or
// its virtual host says so, in bytes.
func (e *Entry) BufferLimit() (n uint32, ok bool) {
	l := e.limit
	if l == nil {
		l = e.vh.limit
	}
	if l == nil {
		return 0, false
	}
	return *l, true
}

// IncludeRequestAttemptCount tells whether upstreams get x-envoy-attempt-count.
func (e *Entry) IncludeRequestAttemptCount() bool { return e.vh.attemptInRequest }

// IncludeResponseAttemptCount tells whether clients get x-envoy-attempt-count.
func (e *Entry) IncludeResponseAttemptCount() bool { return e.vh.attemptInResponse }

// IncludeIsTimeoutRetry tells whether a retry after a timeout is marked with
// x-envoy-is-timeout-retry.
func (e *Entry) IncludeIsTimeoutRetry() bool { return e.vh.isTimeoutRetry }

// FinalizeRequest does to the request what the route says: header mutations of
// all levels, then the host, then the path (RT-20 to RT-22).
func (e *Entry) FinalizeRequest(c *Context, t Target) {
	if w := t.Weighted; w != nil {
		w.request.apply(c, c.Request)
		if w.host != "" {
			c.Request.SetID(authorityID, w.host)
		}
	}
	vh, tab := e.vh, e.vh.level
	if tab.specificWins {
		tab.request.apply(c, c.Request)
		vh.request.apply(c, c.Request)
		e.request.apply(c, c.Request)
	} else {
		e.request.apply(c, c.Request)
		vh.request.apply(c, c.Request)
		tab.request.apply(c, c.Request)
	}
	e.host.apply(c)
	e.rewrite.apply(c, &e.path)
}

// FinalizeResponse applies the response header mutations of all levels to
// c.Response.
//
// A redirect by require_tls gets none, as in Envoy, and a direct response of
// status 201 or 3xx gets a Location of the request itself.
func (e *Entry) FinalizeResponse(c *Context, t Target) {
	if e == e.vh.toTLS {
		return
	}
	if e.kind == DirectResponse && (e.direct.status == 201 || e.direct.status/100 == 3) {
		c.Response.Add("location", keep(c.Response, c.Request.Scheme(), "://", (&redirect{}).keptHost(c, c.Request.Scheme()), c.Request.Path()))
	}
	if w := t.Weighted; w != nil {
		w.response.apply(c, c.Response)
	}
	vh, tab := e.vh, e.vh.level
	if tab.specificWins {
		tab.response.apply(c, c.Response)
		vh.response.apply(c, c.Response)
		e.response.apply(c, c.Response)
		return
	}
	e.response.apply(c, c.Response)
	vh.response.apply(c, c.Response)
	tab.response.apply(c, c.Response)
}
