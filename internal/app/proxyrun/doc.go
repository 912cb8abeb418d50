// Package proxyrun turns the command line of the proxy into a bootstrap that
// was looked through, and runs what is made of it: flags, loading and refusing,
// log output, signals.
package proxyrun
