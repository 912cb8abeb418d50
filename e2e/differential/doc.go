// Package differential compares Xebec's proxy with Envoy. Both get the same
// bootstrap and the same exchanges; what the client got, what the upstream saw,
// the access-log lines and the changes of the counters must be equal, but for
// the differences that docs/differences.md lists. A difference that is not
// listed fails the suite, and so does a listed one that did not occur.
//
//	bash e2e/setup.sh
//	go test -tags interop ./e2e/differential
//	go test -tags interop ./e2e/differential -self               # Envoy on both sides: the suite checks itself
//	go test -tags interop ./e2e/differential -show -v -run '///methods'  # what Envoy did, as text
//	go test -tags interop ./e2e/differential -diffs /tmp/diffs   # every difference, one JSON object a line
//
// The exchanges are data: testdata/*.yaml, one file for each pair of proxies.
// testdata/README.md says how to write one.
package differential
