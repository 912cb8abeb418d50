// Package route decides what becomes of a request: it matches the request with
// a route table and tells the route's action with all that belongs to it:
// cluster, rewrites, header mutations, redirects, timeouts and retries
// (config/route/v3; requirements RT-01 to RT-41).
//
// The package is pure. It does no I/O, keeps no goroutine and knows no
// connection: a Table is made once from its configuration, is immutable and
// safe for concurrent use; what belongs to one request is in a Context and a
// RetryState, which are confined to the request's worker. Matching, and what is
// done to a request without substitutions, does not allocate.
//
// How long matching takes does not depend on how many virtual hosts there are
// with domains of a kind, nor on how many routes with plain paths and prefixes:
// hosts are found by hashing, wildcards by hashing once for each length, routes
// by hashing the whole path and walking a prefix tree; what both yield is merged
// in configured order, so that still the first match wins.
package route
