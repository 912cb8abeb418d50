// Package xdsclient takes configuration from xDS management servers: clusters,
// listeners, routes and every other resource of the protocol, or of your own.
//
// A [Source] is one cache over one or several servers. [Watch] follows a
// resource, or all of a type; [Fetch] reads once.
//
//	transport, err := xdsclient.NewDirect(xdsclient.DirectConfig{Address: "xds.example.com:443", TLS: &tls.Config{}})
//	…
//	source, err := xdsclient.NewSource(ctx, xdsclient.Config{
//		Node:    &corev3.Node{Id: "my-program"},
//		Servers: []xdsclient.Server{{Name: "main", Transport: transport}},
//	})
//	…
//	cancel := xdsclient.Watch(source, xdsclient.Clusters(), "backend", watcher)
//
// # Watching
//
// A [Watcher] hears of a resource in two ways. OnChange and OnError say whether
// there is a value: OnError means that there is none, since it does not exist,
// is invalid, or no server can be reached. OnAmbientError says that the value
// at hand is to be kept although something is wrong. While the servers are away
// everything that was received stays as it is.
//
// Each resource is decoded once for each content, however many watches there
// are and however often it is sent; once more for a watch that begins later, if
// the type does not keep values (Type.Transient), as those of the protocol do
// not. An invalid resource is refused (a NACK names
// it and says why) and the one before stays in use; what else was in the
// response is used.
//
// # Names
//
// A name may be structured ("xdstp://authority/type/id"), and stand for a
// collection. Redirects are followed, list collections opened, and alternatives
// asked, at whichever server they are ([Watch], docs/names.md).
//
// # Variants and transports
//
// Config.Delta and Config.PerType choose between the four variants of the
// protocol over gRPC: state of the world or delta, one stream for everything
// (ADS) or one for each type. A [Transport] reaches a server: [Direct] over
// gRPC as cheaply as this module can, [Dial] and [Conn] over grpc-go with all it
// has (resolvers, interceptors, credentials of its own), on a connection of their
// own or of yours; the packages xdsclient/rest and xdsclient/file poll over HTTP
// and follow files.
//
// # Several servers
//
// Config.Servers is an order of preference. The next server is asked when one
// cannot be reached and something that is watched is not cached; as soon as the
// preferred one sends a resource, it takes over again (gRFC A71).
// Server.Alternates are equal ways to one server, tried in turn.
// Config.Authorities sends names of the form "xdstp://authority/…" to servers
// of their own (gRFC A47).
//
// # How it is made
//
// The protocol's rules are in a pure state machine, internal/wire/client, one
// for each stream. This package gives it streams, time and watchers, and merges
// what several servers say. Events (a watch, a message, a timer) are worked off
// one after the other by whichever goroutine brings the first; there is a pair
// of goroutines for each stream and none for a resource or a watch. The next
// message of a stream is read when the watchers have returned from the one
// before. Over [Direct] the goroutine that reads a response from the socket also
// decodes it, calls the watchers and writes the answer.
package xdsclient
