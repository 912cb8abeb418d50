package validate

// Codes of findings about one resource.
const (
	codeConstraint    = "constraint"
	codeUnknownType   = "unknown-type"
	codeUndecodable   = "undecodable"
	codeNestedTooDeep = "nested-too-deep"
	codeOldType       = "v2-type"
	codeMissingName   = "missing-name"
	codeInvalidRegex  = "invalid-regex"

	codeListenerAddress       = "listener-without-address"
	codeListenerNoChain       = "listener-without-filter-chain"
	codeDuplicateChain        = "duplicate-filter-chain"
	codeDuplicateChainName    = "duplicate-filter-chain-name"
	codeFilterNotLast         = "terminal-filter-not-last"
	codeNoTerminalFilter      = "no-terminal-filter"
	codeDuplicateUpgrade      = "duplicate-upgrade"
	codeTLSWithoutCertificate = "tls-without-certificate"

	codeEDSWithoutConfig    = "eds-without-config"
	codeEDSWithAssignment   = "eds-with-load-assignment"
	codeEDSConfigUnused     = "eds-config-without-eds"
	codeServiceNameMissing  = "xdstp-without-service-name"
	codeLogicalDNSEndpoints = "logical-dns-endpoints"
	codeOriginalDstPolicy   = "original-dst-lb-policy"
	codeOriginalDstAssigned = "original-dst-with-load-assignment"
	codeRingSize            = "ring-size"
	codeRetryInterval       = "retry-interval"

	codeAddressNotIP      = "address-not-ip"
	codePriorityGap       = "priority-gap"
	codeDuplicateLocality = "duplicate-locality"
	codeDuplicateEndpoint = "duplicate-endpoint"
	codeWeightOverflow    = "weight-overflow"

	codeDuplicateHost   = "duplicate-virtual-host"
	codeDuplicateDomain = "duplicate-domain"
	codeHostName        = "virtual-host-name"
	codeWeightedZero    = "weighted-clusters-zero"
	codeWeightedName    = "weighted-cluster-name"
	codeRewriteConflict = "rewrite-conflict"
	codeUnknownPlugin   = "unknown-specifier-plugin"
	codeScopeRoutes     = "scope-routes"
	codeScopeIndex      = "scope-key-index"
)

// Codes of findings about resources together.
const (
	codeMissingCluster   = "missing-cluster"
	codeMissingEndpoints = "missing-endpoints"
	codeMissingRoute     = "missing-route"
	codeMissingSecret    = "missing-secret"
	codeMissingExtension = "missing-extension-config"
	codeMissingResource  = "missing-resource"
	codeNoEndpoints      = "no-endpoints"
	codeUnusedEndpoints  = "unused-endpoints"
	codeUnusedRoute      = "unused-route"
	codeUnusedSecret     = "unused-secret"
	codeUnusedExtension  = "unused-extension-config"
	codeDuplicateName    = "duplicate-name"
	codeAliasTaken       = "alias-taken"
	codeScopeKeyTaken    = "scope-key-taken"
	codeHostTable        = "virtual-host-without-vhds"
	codeNoHosts          = "no-virtual-hosts"
	codeDomainTaken      = "domain-taken"
	codeDomainCovered    = "domain-covered"
)

// Code describes one kind of finding.
type Code struct {
	// Code is the stable identifier, as in Finding.Code.
	Code string
	// Severity is the usual one; a Tier of Reference can be raised by Strict.
	Severity Severity
	Tier     Tier
	// Meaning says what is wrong and who minds.
	Meaning string
}

// Codes lists the findings of this package, as docs/findings.md does. The slice
// is the caller's.
func Codes() []Code {
	return append(schemaCodes(), referenceCodes()...)
}

func schemaCodes() []Code {
	e, w := severities(Schema)
	return []Code{
		e(codeConstraint, "A field breaks a rule that the API declares for it: required, a range, a length, an enum."),
		e(codeUnknownType, "The @type of a configuration names no message this build knows. A warning inside metadata, which clients keep unread."),
		e(codeUndecodable, "The bytes in an Any are not the message its type URL names."),
		e(codeNestedTooDeep, "Messages nest in Any fields deeper than any real configuration does."),
		e(codeOldType, "A v3 resource holds a message of the v2 API."),
		e(codeMissingName, "A resource has no name, so that no client can ask for it."),
		e(codeInvalidRegex, "A regular expression does not follow the RE2 syntax."),
		e(codeListenerAddress, "A listener has no address and is neither an API listener nor an internal one."),
		e(codeListenerNoChain, "A TCP listener has no filter chain, not even a default one."),
		e(codeDuplicateChain, "Two filter chains of a listener have the same match, so that none could be chosen."),
		w(codeDuplicateChainName, "Two filter chains of a listener have one name. An error if a filter_chain_matcher chooses by name."),
		e(codeFilterNotLast, "A filter that ends the chain (a router, a TCP proxy) is followed by others, which could never run."),
		e(codeNoTerminalFilter, "The last filter of a chain is one that passes everything on."),
		e(codeDuplicateUpgrade, "One upgrade type is configured twice."),
		e(codeTLSWithoutCertificate, "A server's TLS context has no source of certificates."),
		e(codeEDSWithoutConfig, "A cluster of type EDS does not say where its endpoints come from."),
		w(codeEDSWithAssignment, "A cluster of type EDS has endpoints of its own as well."),
		e(codeEDSConfigUnused, "A cluster of another type than EDS has an eds_cluster_config."),
		w(codeServiceNameMissing, "A cluster with an xdstp name has no service_name; gRPC clients reject it."),
		e(codeLogicalDNSEndpoints, "A LOGICAL_DNS cluster needs one locality with one endpoint."),
		e(codeOriginalDstPolicy, "An ORIGINAL_DST cluster needs the policy CLUSTER_PROVIDED."),
		e(codeOriginalDstAssigned, "An ORIGINAL_DST cluster has endpoints of its own."),
		e(codeRingSize, "The smallest ring is larger than the largest."),
		e(codeRetryInterval, "The longest retry interval is shorter than the first."),
		e(codeAddressNotIP, "An endpoint of an EDS or STATIC cluster has a host name where only an IP address is taken."),
		w(codePriorityGap, "The priorities of an assignment leave a number out; gRPC clients reject it."),
		w(codeDuplicateLocality, "A locality stands twice in one priority; gRPC clients reject it."),
		w(codeDuplicateEndpoint, "An address stands twice in one assignment; gRPC clients reject it."),
		e(codeWeightOverflow, "Weights add up to more than a 32-bit number holds."),
		w(codeDuplicateHost, "Two virtual hosts of a route table have one name, so that their statistics mix."),
		e(codeDuplicateDomain, "A domain stands twice in a route table."),
		e(codeHostName, "A virtual host on demand is not called \"<route configuration>/<name>\", outside and inside; Envoy could not remove it."),
		e(codeWeightedZero, "The weights of weighted clusters add up to nothing."),
		e(codeWeightedName, "A weighted cluster needs either name or cluster_header, not both."),
		e(codeRewriteConflict, "A route rewrites the path in more than one way."),
		e(codeUnknownPlugin, "A route names a cluster specifier plugin that its table does not define."),
		e(codeScopeRoutes, "A scope has no routes; or one that stands in a listener has not its own."),
		e(codeScopeIndex, "A part of a scope's key is to be another than the first element of what is not separated, or none at all."),
	}
}

func referenceCodes() []Code {
	e, w := severities(Reference)
	return []Code{
		w(codeMissingCluster, "A cluster is named that the group does not have. Requests get 503; some filters keep a listener from loading."),
		w(codeMissingEndpoints, "A cluster has no assignment; clients wait for it."),
		w(codeMissingRoute, "A listener or scope names a route table that the group does not have; clients wait for it."),
		w(codeMissingSecret, "A TLS context names a secret that the group does not have; clients wait for it."),
		w(codeMissingExtension, "A filter names an extension config that the group does not have; clients wait for it."),
		w(codeMissingResource, "A resource of another type is named that the group does not have."),
		w(codeNoEndpoints, "An assignment has no endpoint, so that its cluster answers 503."),
		w(codeUnusedEndpoints, "No cluster of the group uses an assignment."),
		w(codeUnusedRoute, "No listener or scope of the group uses a route table."),
		w(codeUnusedSecret, "No listener or cluster of the group uses a secret."),
		w(codeUnusedExtension, "No listener of the group uses an extension config."),
		e(codeDuplicateName, "Two resources of one type have one name."),
		e(codeAliasTaken, "An alias is the name, or an alias, of another resource of the type."),
		e(codeScopeKeyTaken, "Two scopes have one key; Envoy refuses the whole response."),
		w(codeHostTable, "The route configuration of a virtual host on demand is missing or has no vhds, so that nobody asks for the host."),
		w(codeNoHosts, "A route configuration has vhds, but the group has no virtual host for it."),
		e(codeDomainTaken, "Two virtual hosts of a route configuration have one domain; clients are given the first."),
		w(codeDomainCovered, "Another virtual host has a wildcard over the domain; a client that has that one does not ask for this one."),
	}
}

// severities returns a constructor for errors and one for warnings of a tier.
func severities(t Tier) (errorCode, warningCode func(code, meaning string) Code) {
	of := func(s Severity) func(string, string) Code {
		return func(code, meaning string) Code { return Code{Code: code, Severity: s, Tier: t, Meaning: meaning} }
	}
	return of(Error), of(Warning)
}
