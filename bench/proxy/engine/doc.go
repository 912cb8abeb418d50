// Package engine drives HTTP load and answers as the upstream, from one thread
// with one epoll loop, so that everything that is not the proxy fits on one
// core and it is the proxy that saturates.
//
// It knows only as much of HTTP as its own messages need: responses must carry
// Content-Length, and of an HTTP/2 header block it looks at the status alone.
// What it does check, it checks for every request: the status is 200 and the
// body has the length that the upstream gave it.
//
// Nothing here is safe for concurrent use.
package engine
