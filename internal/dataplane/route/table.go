package route

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/xebec-proxy/xebec/filter/header"
)

// defaultMaxDirectBody is max_direct_response_body_size_bytes' default.
const defaultMaxDirectBody = 4096

// Table is a route table (config/route/v3/route.proto RouteConfiguration). It
// is immutable and safe for concurrent use.
type Table struct {
	*level
	hosts hostIndex
	source
}

// level is what a table has beside its virtual hosts, which refer to it: not to the
// table, so that another one can have them as well.
type level struct {
	name     string
	request  mutation
	response mutation
	filters  perFilter
	meta     *corev3.Metadata
	vhds     *corev3.ConfigSource

	ignorePort   bool
	ignoreParams bool
	specificWins bool
	maxDirect    int
	// reads says that a file was read, which may have changed.
	reads bool
}

// New makes a table. Everything that is wrong is told at once, each with the
// path of its field; what is set and not built is refused by its name.
func New(cfg *routev3.RouteConfiguration, env *Env) (*Table, error) { return Rebuild(nil, cfg, env) }

// makeTable builds everything.
func makeTable(cfg *routev3.RouteConfiguration, env *Env) (*Table, error) {
	b := &builder{env: env, t: &Table{level: newLevel(cfg)}}
	built := []string{
		"name", "virtual_hosts", "response_headers_to_add", "response_headers_to_remove",
		"request_headers_to_add", "request_headers_to_remove", "most_specific_header_mutations_wins", "validate_clusters",
		"max_direct_response_body_size_bytes", "ignore_port_in_host_matching", "ignore_path_parameters_in_path_matching",
		"typed_per_filter_config", "metadata", "vhds",
	}
	if env.Checking {
		built = append(built, "internal_only_headers")
	}
	b.only("", cfg, built...)
	l := b.t.level
	l.request = b.mutation("", requestHeaders, cfg.GetRequestHeadersToAdd(), cfg.GetRequestHeadersToRemove())
	l.response = b.mutation("", responseHeaders, cfg.GetResponseHeadersToAdd(), cfg.GetResponseHeadersToRemove())
	l.filters = b.perFilter("typed_per_filter_config", cfg.GetTypedPerFilterConfig())
	l.reads = b.hasRead()
	b.t.source = source{base: WithoutHosts(cfg), of: cfg.GetVirtualHosts(), built: make([]*virtualHost, len(cfg.GetVirtualHosts()))}
	b.t.hosts.exact = newDomains(len(cfg.GetVirtualHosts()))
	for i, c := range cfg.GetVirtualHosts() {
		b.t.built[i] = b.virtualHost(i, c)
	}
	b.warnings.tell(env)
	if err := b.result(); err != nil {
		return nil, fmt.Errorf("route configuration %q: %w", b.t.name, err)
	}
	b.t.hosts.finish()
	return b.t, nil
}

func newLevel(cfg *routev3.RouteConfiguration) *level {
	l := &level{
		name: cfg.GetName(), meta: cfg.GetMetadata(), vhds: cfg.GetVhds().GetConfigSource(),
		ignorePort:   cfg.GetIgnorePortInHostMatching(),
		ignoreParams: cfg.GetIgnorePathParametersInPathMatching(),
		specificWins: cfg.GetMostSpecificHeaderMutationsWins(),
		maxDirect:    defaultMaxDirectBody,
	}
	if n := cfg.GetMaxDirectResponseBodySizeBytes(); n != nil {
		l.maxDirect = int(n.GetValue())
	}
	return l
}

// Name is the route configuration's name (%ROUTE_CONFIG_NAME%).
func (t *Table) Name() string { return t.name }

// Metadata is the route configuration's metadata, or nil.
func (t *Table) Metadata() *corev3.Metadata { return t.meta }

// MoreHosts is where virtual hosts are to be had that the table does not have
// yet (RT-12), or nil. Those that came are in the table like its own.
func (t *Table) MoreHosts() *corev3.ConfigSource { return t.vhds }

// Match is the route of a request: the first one, within the virtual host of
// the request's host, whose every condition holds. Nil: there is none (404).
// It does not allocate.
func (t *Table) Match(c *Context) *Entry {
	vh := t.host(c)
	if vh == nil {
		return nil
	}
	path, ok := c.path()
	if !ok {
		return nil
	}
	if proto, ok := c.Request.LookupID(header.XForwardedProto); ok && proto == "" {
		return nil // neither "http" nor "https": as in Envoy, for no route
	}
	if vh.tlsRedirect(c) {
		return vh.toTLS
	}
	return vh.match(c, t.plainPath(path))
}

// methodConnect is the method of requests that may have no path.
const methodConnect = "CONNECT"

// path is the request's path, and whether it can have a route: a CONNECT can have
// one without (HC-45).
func (c *Context) path() (path string, ok bool) {
	path, ok = c.Request.LookupID(pathID)
	c.pathless = !ok
	return path, ok || c.Request.Method() == methodConnect
}

// VirtualHost tells which virtual host a request belongs to, for those who
// explain; "" and false if none.
func (t *Table) VirtualHost(c *Context) (name string, ok bool) {
	vh := t.host(c)
	if vh == nil {
		return "", false
	}
	return vh.name, true
}

// plainPath is what routes compare: without query and fragment, and without
// path parameters if the table says so.
func (t *Table) plainPath(path string) string {
	path = withoutQuery(path)
	if t.ignoreParams {
		for i := range len(path) {
			if path[i] == ';' {
				return path[:i]
			}
		}
	}
	return path
}

func withoutQuery(path string) string {
	for i := range len(path) {
		if path[i] == '?' || path[i] == '#' {
			return path[:i]
		}
	}
	return path
}
