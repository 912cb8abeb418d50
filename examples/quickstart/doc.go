// Package quickstart is the configuration that `xebec demo` serves: one
// service, greeter, for gRPC clients and for a proxy, whose requests a route
// splits between two clusters. The files are embedded so that the demo runs from
// anywhere.
package quickstart

import "embed"

// Files are the resource files, at the top.
//
//go:embed *.yaml
var Files embed.FS
