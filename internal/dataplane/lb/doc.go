// Package lb chooses the host of a request: first a priority by the health of
// all of them, then, with locality weights, a locality, then a host by the
// cluster's policy.
//
// The arithmetic of priorities and localities is in pure functions
// ([Distribute], [LocalityShare]). A [Picker] belongs to one worker; it notices
// by itself that the cluster has a new set of hosts.
package lb
