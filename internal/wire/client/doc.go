// Package client holds the client's rules of the xDS transport protocol as a
// pure state machine: events in, due requests out, no I/O, no clock, no
// goroutine.
//
// A [Channel] is the client's side of one logical stream to one server, in the
// state-of-the-world or the delta variant, across reconnects. It may carry one
// type or many. Subscriptions, responses and the ends of streams are its
// events; [Channel.Next] yields the request that is due now, if any. Because
// requests are pulled, thousands of new names become one request, and a
// transport that is slow only ever owes one answer for each response and the
// latest list of names.
//
// A Channel keeps what the server has told of each resource: the bytes as they
// came, by reference, and the version. Bytes that differ from what is held are
// given to a [Checker]; equal ones are not looked at.
//
// The life of a channel:
//
//	ch := client.New(client.Config{Checker: checker})
//	ch.Subscribe(clusters, "backend")
//	ch.Open(now)                       // a stream is there
//	for r := ch.Next(now); r != nil; r = ch.Next(now) {
//		send(r)
//	}
//	out := ch.Receive(now, response)   // tell the watchers of out.Events
//	...                                // and ask Next again: the ACK is due
//	events := ch.Expire(now)           // when ch.Deadline() has come
//	answered := ch.Closed(now)         // the stream has ended; Open a new one
//
// The scripts in testdata show the rules at work and name the requirements they
// prove; the property tests play a channel against a model server and against
// the real one in internal/wire.
//
// A Channel is owned by one goroutine at a time.
package client
