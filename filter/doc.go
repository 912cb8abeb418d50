// Package filter is the extension API of the proxy: the contracts of HTTP,
// network and listener filters, what they learn about a stream, and the
// registry that makes an extension known by its configuration's type URL.
//
// The contracts are Envoy's (envoy/http/filter.h, envoy/network/filter.h): the
// built-in filters use nothing else. All callbacks of a stream or a connection
// come on the one goroutine, the worker, that owns it, and must not block; what
// blocks runs through Callbacks.Go and comes back on the worker.
package filter
