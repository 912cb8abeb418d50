package route

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/filter/header"
)

// defaultMaxDirectBody is max_direct_response_body_size_bytes' default.
const defaultMaxDirectBody = 4096

// Table is a route table (config/route/v3/route.proto RouteConfiguration). It
// is immutable and safe for concurrent use.
type Table struct {
	*level
	hosts hostIndex
	// base and built are what Rebuild needs, nil without vhds: the configuration
	// without its virtual hosts, and what became of those.
	base  *routev3.RouteConfiguration
	built map[*routev3.VirtualHost]*virtualHost
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
}

// New makes a table. Everything that is wrong is told at once, each with the
// path of its field; what is set and not built is refused by its name.
func New(cfg *routev3.RouteConfiguration, env *Env) (*Table, error) { return Rebuild(nil, cfg, env) }

// Rebuild is New that takes virtual hosts from the table before, which was made with
// the same env, if nothing but virtual hosts has changed: those that are the same
// message, which nobody may have changed. Whether the clusters that they name still
// exist is not looked at again. Without vhds, or before nil, it is New.
func Rebuild(before *Table, cfg *routev3.RouteConfiguration, env *Env) (*Table, error) {
	if env == nil {
		env = &Env{}
	}
	t := &Table{level: &level{
		name: cfg.GetName(), meta: cfg.GetMetadata(), vhds: cfg.GetVhds().GetConfigSource(),
		ignorePort:   cfg.GetIgnorePortInHostMatching(),
		ignoreParams: cfg.GetIgnorePathParametersInPathMatching(),
		specificWins: cfg.GetMostSpecificHeaderMutationsWins(),
		maxDirect:    defaultMaxDirectBody,
	}}
	if n := cfg.GetMaxDirectResponseBodySizeBytes(); n != nil {
		t.maxDirect = int(n.GetValue())
	}
	b := &builder{env: env, t: t}
	if cfg.GetVhds() != nil {
		t.base, t.built = withoutHosts(cfg), make(map[*routev3.VirtualHost]*virtualHost, len(cfg.GetVirtualHosts()))
		if before != nil && before.base != nil && proto.Equal(before.base, t.base) {
			t.level, b.before = before.level, before.built
			return b.finish(cfg)
		}
	}
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
	t.request = b.mutation("", requestHeaders, cfg.GetRequestHeadersToAdd(), cfg.GetRequestHeadersToRemove())
	t.response = b.mutation("", responseHeaders, cfg.GetResponseHeadersToAdd(), cfg.GetResponseHeadersToRemove())
	t.filters = b.perFilter("typed_per_filter_config", cfg.GetTypedPerFilterConfig())
	if v := cfg.GetValidateClusters(); v != nil && !v.GetValue() {
		noCheck := *env
		noCheck.ClusterExists = nil
		b.env = &noCheck
	}
	return b.finish(cfg)
}

// finish makes the virtual hosts.
func (b *builder) finish(cfg *routev3.RouteConfiguration) (*Table, error) {
	t := b.t
	t.hosts.expect(len(cfg.GetVirtualHosts()))
	for i, vh := range cfg.GetVirtualHosts() {
		b.virtualHost(i, vh)
	}
	if err := b.result(); err != nil {
		return nil, fmt.Errorf("route configuration %q: %w", t.name, err)
	}
	t.hosts.finish()
	return t, nil
}

// withoutHosts is a route configuration without its virtual hosts. It shares the
// rest.
func withoutHosts(cfg *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	out := &routev3.RouteConfiguration{}
	cfg.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Name() != "virtual_hosts" {
			out.ProtoReflect().Set(f, v)
		}
		return true
	})
	return out
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
	path, ok := c.Request.LookupID(pathID)
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
