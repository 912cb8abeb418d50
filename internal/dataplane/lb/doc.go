// Package lb chooses the host of a request: first a priority by the health of
// all of them, then, with locality weights, a locality, then a host by the
// cluster's policy.
//
// The arithmetic is in pure functions: that of priorities in package priority,
// that of localities in [LocalityShare]. A [Picker] belongs to one worker; it notices
// by itself that the cluster has a new set of hosts.
package lb
