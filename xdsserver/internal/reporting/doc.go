// Package reporting is what the services have in common that nodes report to
// on streams of their own: load reporting and health discovery.
//
// A [Gate] decides which nodes may report and ends the streams of a server
// that shuts down, [Incoming] runs a stream, a [Roster] remembers the nodes
// for a time, and [Subscribers] hear of each report. What a report says, and
// what is kept of it, is each service's own.
package reporting
