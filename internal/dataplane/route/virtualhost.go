package route

import (
	"errors"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/vhoststats"
)

// virtualHost is a VirtualHost of a table.
type virtualHost struct {
	level      *level
	name       string
	routes     []*Entry
	paths      pathIndex
	requireTLS routev3.VirtualHost_TlsRequirementType
	toTLS      *Entry // what a request without TLS gets
	request    mutation
	response   mutation
	filters    perFilter
	retry      *RetryPolicy
	limit      *uint32
	meta       *corev3.Metadata
	clusters   []VirtualCluster
	stats      *vhoststats.Host
	// asked are the clusters that had to exist, reads says that a file was read:
	// what it depends on beside its message.
	asked []string
	reads bool

	attemptInRequest, attemptInResponse, isTimeoutRetry bool
}

func (b *builder) virtualHost(i int, cfg *routev3.VirtualHost) *virtualHost {
	path := index("virtual_hosts", i)
	vh := b.newVirtualHost(path, cfg)
	vh.asked, vh.reads, b.asked = b.asked, b.hasRead(), nil
	b.domains(path+".domains", cfg.GetDomains(), vh)
	return vh
}

func (b *builder) newVirtualHost(path string, cfg *routev3.VirtualHost) *virtualHost {
	built := []string{
		"name", "domains", "routes", "require_tls", "request_headers_to_add", "request_headers_to_remove",
		"response_headers_to_add", "response_headers_to_remove", "typed_per_filter_config", "include_request_attempt_count",
		"include_attempt_count_in_response", "include_is_timeout_retry_header", "retry_policy",
		"per_request_buffer_limit_bytes", "request_body_buffer_limit", "metadata", "virtual_clusters",
	}
	b.only(path, cfg, built...)
	vh := &virtualHost{
		level: b.t.level, name: cfg.GetName(), requireTLS: cfg.GetRequireTls(), meta: cfg.GetMetadata(),
		attemptInRequest: cfg.GetIncludeRequestAttemptCount(), attemptInResponse: cfg.GetIncludeAttemptCountInResponse(),
		isTimeoutRetry: cfg.GetIncludeIsTimeoutRetryHeader(),
	}
	if vh.name == "" {
		b.fail(path+".name", errors.New("the virtual host has no name"))
	}
	vh.request = b.mutation(path, requestHeaders, cfg.GetRequestHeadersToAdd(), cfg.GetRequestHeadersToRemove())
	vh.response = b.mutation(path, responseHeaders, cfg.GetResponseHeadersToAdd(), cfg.GetResponseHeadersToRemove())
	vh.filters = b.perFilter(path+".typed_per_filter_config", cfg.GetTypedPerFilterConfig())
	vh.limit = bufferLimit(cfg.GetRequestBodyBufferLimit(), cfg.GetPerRequestBufferLimitBytes()) //nolint:staticcheck // deprecated fields still work (RT-31)
	if r := cfg.GetRetryPolicy(); r != nil {
		vh.retry = b.retryPolicy(path+".retry_policy", r)
	}
	vh.clusters = b.virtualClusters(path+".virtual_clusters", vh, cfg.GetVirtualClusters())
	vh.toTLS = &Entry{vh: vh, kind: Redirect, redirect: &redirect{status: 301, scheme: "https", plain: true}, timeouts: defaultTimeouts()}
	for i, r := range cfg.GetRoutes() {
		if e := b.entry(index(path+".routes", i), r, vh); e != nil {
			vh.paths.add(uint32(len(vh.routes)), &e.path)
			vh.routes = append(vh.routes, e)
		}
	}
	return vh
}

func (b *builder) domains(path string, domains []string, vh *virtualHost) {
	if len(domains) == 0 {
		b.fail(path, errors.New("the virtual host has no domain: write at least one, or \"*\""))
	}
	for i, d := range domains {
		if strings.ContainsAny(d, "\x00\r\n") {
			b.fail(index(path, i), fmt.Errorf("%q has control characters", d))
			continue
		}
		b.fail(index(path, i), b.t.hosts.add(d, b.t.name, vh))
	}
}

// tlsRedirect tells whether the request has to come again by TLS (RT-09).
func (vh *virtualHost) tlsRedirect(c *Context) bool {
	if vh.requireTLS == routev3.VirtualHost_NONE {
		return false
	}
	tls := c.TLS
	if p, ok := c.Request.LookupID(header.XForwardedProto); ok {
		tls = p == "https"
	}
	return !tls && (vh.requireTLS == routev3.VirtualHost_ALL || c.External)
}

func (vh *virtualHost) match(c *Context, path string) *Entry {
	var found candidates
	vh.paths.collect(path, &found)
	if found.over {
		return vh.matchSlow(c, path)
	}
	for {
		i, ok := found.next()
		if !ok {
			return nil
		}
		e := vh.routes[i]
		if e.path.found(path) && e.path.takes(c) && (!e.when.any || e.when.hold(c)) {
			return e
		}
	}
}

// matchSlow tries every route in order.
func (vh *virtualHost) matchSlow(c *Context, path string) *Entry {
	for _, e := range vh.routes {
		if e.path.match(path) && e.path.takes(c) && (!e.when.any || e.when.hold(c)) {
			return e
		}
	}
	return nil
}
