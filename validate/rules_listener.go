package validate

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

func (c *checker) listener(v *listenerv3.Listener) {
	if v.GetApiListener() != nil {
		return
	}
	if v.GetAddress() == nil && v.GetInternalListener() == nil {
		c.fault(codeListenerAddress, "address", "the listener has no address",
			"set address, or api_listener for clients without sockets")
	}
	if len(v.GetFilterChains()) == 0 && v.GetDefaultFilterChain() == nil && !isUDP(v.GetAddress()) {
		c.fault(codeListenerNoChain, "filter_chains", "no filter chains specified", "add a filter chain, or a default_filter_chain")
	}
	c.chainMatches(v)
	c.chainNames(v)
	for i, chain := range v.GetFilterChains() {
		c.networkFilters(fmt.Sprintf("filter_chains[%d].filters", i), chain.GetFilters())
	}
	c.networkFilters("default_filter_chain.filters", v.GetDefaultFilterChain().GetFilters())
}

func isUDP(a *corev3.Address) bool {
	return a.GetSocketAddress().GetProtocol() == corev3.SocketAddress_UDP
}

// chainMatches finds chains that match alike (FC-08). With a matcher of the
// listener the chains' own matches do not count.
func (c *checker) chainMatches(v *listenerv3.Listener) {
	if v.GetFilterChainMatcher() != nil {
		return
	}
	first := map[string]int{}
	for i, chain := range v.GetFilterChains() {
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(chain.GetFilterChainMatch())
		if err != nil {
			continue
		}
		if j, dup := first[string(b)]; dup {
			c.fault(codeDuplicateChain, fmt.Sprintf("filter_chains[%d].filter_chain_match", i),
				fmt.Sprintf("multiple filter chains with overlapping matching rules are defined: filter_chains[%d] and [%d]", j, i),
				"give each chain a match of its own, or make one the default_filter_chain")
			continue
		}
		first[string(b)] = i
	}
}

func (c *checker) chainNames(v *listenerv3.Listener) {
	report := c.doubt
	if v.GetFilterChainMatcher() != nil {
		report = c.fault
	}
	first := map[string]int{}
	for i, chain := range v.GetFilterChains() {
		name := chain.GetName()
		if j, dup := first[name]; dup && name != "" {
			report(codeDuplicateChainName, fmt.Sprintf("filter_chains[%d].name", i),
				fmt.Sprintf("filter_chains[%d] and [%d] are both called %q", j, i, name), "rename one of them")
			continue
		}
		first[name] = i
	}
}

// networkFilters checks that a chain ends with a terminal filter (NF-04).
func (c *checker) networkFilters(path string, filters []*listenerv3.Filter) {
	for i, f := range filters {
		c.terminal(fmt.Sprintf("%s[%d]", path, i), f.GetName(), f.GetTypedConfig(), i == len(filters)-1, networkFilterRole)
	}
}

func (c *checker) connectionManager(v *hcmv3.HttpConnectionManager) {
	filters := v.GetHttpFilters()
	for i, f := range filters {
		c.terminal(fmt.Sprintf("http_filters[%d]", i), f.GetName(), f.GetTypedConfig(), i == len(filters)-1, httpFilterRole)
	}
	first := map[string]int{}
	for i, u := range v.GetUpgradeConfigs() {
		kind := strings.ToLower(u.GetUpgradeType())
		if j, dup := first[kind]; dup {
			c.fault(codeDuplicateUpgrade, fmt.Sprintf("upgrade_configs[%d].upgrade_type", i),
				fmt.Sprintf("multiple upgrade configs with the same name %q: upgrade_configs[%d] and [%d]", u.GetUpgradeType(), j, i),
				"keep one of them")
			continue
		}
		first[kind] = i
	}
}

// role is what is certain about a filter's place: some can be either.
type role int

const (
	anyPlace role = iota
	lastOnly
	neverLast
)

func (c *checker) terminal(path, name string, config *anypb.Any, last bool, roleOf func(string) role) {
	kind := string(config.MessageName())
	switch r := roleOf(kind); {
	case r == lastOnly && !last:
		c.fault(codeFilterNotLast, path, fmt.Sprintf("terminal filter named %s of type %s must be the last filter of its chain", name, kind),
			"move it to the end, or remove the filters after it")
	case r == neverLast && last:
		c.fault(codeNoTerminalFilter, path, fmt.Sprintf("non-terminal filter named %s of type %s is the last filter of its chain", name, kind),
			"end the chain with a filter that answers or forwards, such as a router or a TCP proxy")
	}
}

func networkFilterRole(kind string) role {
	short, ok := strings.CutPrefix(kind, "envoy.extensions.filters.network.")
	if !ok {
		return anyPlace
	}
	folder, _, _ := strings.Cut(short, ".")
	switch folder {
	case "http_connection_manager", "tcp_proxy", "echo", "direct_response", "redis_proxy", "thrift_proxy", "dubbo_proxy", "generic_proxy":
		return lastOnly
	case "rbac", "ratelimit", "local_ratelimit", "connection_limit", "ext_authz", "mongo_proxy", "zookeeper_proxy",
		"sni_cluster", "sni_dynamic_forward_proxy", "set_filter_state", "geoip":
		return neverLast
	}
	return anyPlace
}

func httpFilterRole(kind string) role {
	short, ok := strings.CutPrefix(kind, "envoy.extensions.filters.http.")
	if !ok {
		return anyPlace
	}
	folder, _, _ := strings.Cut(short, ".")
	switch folder {
	case "router":
		return lastOnly
	case "adaptive_concurrency", "admission_control", "bandwidth_limit", "buffer", "cache", "compressor", "cors", "csrf",
		"decompressor", "dynamic_forward_proxy", "ext_authz", "ext_proc", "fault", "grpc_http1_bridge", "grpc_json_transcoder",
		"grpc_stats", "grpc_web", "header_to_metadata", "health_check", "ip_tagging", "jwt_authn", "local_ratelimit", "lua",
		"oauth2", "on_demand", "original_src", "ratelimit", "rbac", "set_metadata", "stateful_session":
		return neverLast
	}
	return anyPlace
}

// serverTLS checks that there is a certificate, of whatever origin.
func (c *checker) serverTLS(v *tlsv3.DownstreamTlsContext) {
	common := v.GetCommonTlsContext()
	if len(common.GetTlsCertificates()) > 0 || len(common.GetTlsCertificateSdsSecretConfigs()) > 0 ||
		common.GetTlsCertificateProviderInstance() != nil || common.GetCustomTlsCertificateSelector() != nil ||
		common.GetCustomHandshaker() != nil || hasOldProvider(common) {
		return
	}
	c.fault(codeTLSWithoutCertificate, "common_tls_context", "No TLS certificates found for server context",
		"set tls_certificates, tls_certificate_sds_secret_configs or tls_certificate_provider_instance")
}

// hasOldProvider reports the deprecated ways to name a certificate provider.
func hasOldProvider(common *tlsv3.CommonTlsContext) bool {
	m := common.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if strings.HasPrefix(string(fd.Name()), "tls_certificate_certificate_provider") && m.Has(fd) {
			return true
		}
	}
	return false
}
