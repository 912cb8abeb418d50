// Package xds is the vocabulary of the xDS protocol that every other package
// of this module shares: resource types and their type URLs, resources with
// their encoded bytes and versions, names, nodes, positions in source files
// and errors that carry them.
//
// Values of this package are immutable once built and safe for concurrent use
// unless a comment says otherwise.
package xds
