// Package harness is what the suites of end-to-end tests share: finding the
// programs of other projects, building the one under test, running processes,
// reading the admin pages of a proxy, and waiting.
//
// Like the suites it has the build tag interop.
package harness
