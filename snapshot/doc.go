// Package snapshot holds what a group of clients is to receive: immutable sets
// of resources that share structure between revisions, so that a change costs
// what it changes and not what exists.
package snapshot
