// Package wire holds the rules of the xDS transport protocol as pure state
// machines: events in, due responses out, no I/O, no clock, no goroutine.
//
// A [Stream] is the server's side of one stream, aggregated or not, in the
// state-of-the-world or the delta variant. Requests and published snapshots
// are its events; [Stream.Next] yields the response that is due now, if any.
// Because responses are pulled, a slow stream only ever owes the latest state.
//
// A stream does not remember the version of every resource its client holds.
// It remembers the snapshot it has been brought up to and the exceptions to
// it: resources that are due, sent but unanswered, or rejected, each with what
// the client held before. Everything else the client holds as the snapshot
// has it.
//
// The scripts in testdata show the rules at work and name the requirements they
// prove (docs/protocol.md introduces them); the property tests play a stream
// against a model client, and the fuzz target against one that obeys nothing.
//
// A Stream is owned by one goroutine at a time.
package wire
