// Package peers holds tests of the xDS client and of the proxy against servers
// that other projects wrote: go-control-plane with its snapshot, linear and mux
// caches. It is a module of its own, so that these are no dependencies of Xebec:
//
//	cd e2e/peers && go test ./...
package peers
