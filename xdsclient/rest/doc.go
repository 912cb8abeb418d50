// Package rest is the transport of xdsclient that polls a management server
// over HTTP, with JSON (XR-10, XR-11; "REST-JSON polling" of the protocol).
//
// Every stream is a loop that posts a DiscoveryRequest, waits, and posts the
// next. It carries one type, in the state-of-the-world variant: a source of it
// needs Config.PerType. Each request holds everything: the node, all names, the
// version that was accepted last and, as long as the server has nothing else,
// why its last answer was rejected. An answer of 304 is no change. Anything else
// but 200 ends the stream, so that the source learns that the server cannot be
// reached and opens another, which asks the next target.
//
//	t, err := rest.New(rest.Config{RefreshDelay: 5 * time.Second, Targets: []rest.Target{{URL: "http://127.0.0.1:18000"}}})
//	…
//	src, err := xdsclient.NewSource(xdsclient.Config{
//		PerType: true, ResourceTimeout: t.Patience(),
//		Servers: []xdsclient.Server{{Name: "poll", Transport: t}},
//	})
//
// Resources are read from JSON, so their types have to be linked into the
// program.
package rest
