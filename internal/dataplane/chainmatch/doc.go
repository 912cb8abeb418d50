// Package chainmatch chooses the filter chain of a listener for a connection.
//
// It is pure: it reads no clock, does no I/O and starts nothing. A [Matcher]
// is built once from a listener's chains and is immutable, so any number of
// workers may share it; [Matcher.Match] allocates nothing.
//
// Criteria are looked at in one fixed order: destination port, destination
// address, server name, transport protocol, application protocol, directly
// connected source address, source type, source address, source port. At each
// of them the most specific value that fits the connection is taken, chains
// that do not set the criterion being the least specific; what a step has
// excluded never comes back, even when a later step finds nothing.
//
// Source: envoy/config/listener/v3/listener_components.proto, FilterChainMatch.
package chainmatch
