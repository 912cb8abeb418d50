// Package proxy tests `xebec proxy` from outside: the binary with a bootstrap,
// real sockets, clients and servers that behave and such that do not. Where
// Envoy's answer is the right one, a real Envoy is asked the same in the same
// test.
//
// The tests have the build tag interop and need what e2e/setup.sh fetches:
//
//	make interop
//
// What needs no other program is tested in package proxy itself.
package proxy
