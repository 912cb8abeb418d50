// Package e2e holds the black-box tests of Xebec: the built binary against
// clients that other projects wrote. They are Envoy, gRPC for Go and gRPC for
// Node.js. The first and the last are fetched by setup.sh into .tmp/e2e of the
// repository.
//
// The tests have the build tag interop, so that `go test ./...` needs nothing
// but Go:
//
//	bash e2e/setup.sh
//	go test -tags interop ./e2e/...
//
// A failed test prints the last lines that each process of it wrote.
package e2e
