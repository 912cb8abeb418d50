// Package http2 is the HTTP/2 codec of the data plane (RFC 9113), for both
// sides of a connection: bytes in, calls of a Handler out, frames appended to
// the connection's output. It has no I/O, no clock and no goroutine; a Conn and
// its streams are confined to one worker.
//
// The owner of a Conn
//
//   - calls Init and Start, and then Feed with whatever it reads;
//   - writes *out after every turn and shortens it from the front; when the
//     socket takes no more it says SetWriteBlocked(true), and false once
//     everything left;
//   - calls Continue at the end of the turn, after writing, when OnFull came;
//   - looks at Stream.Buffered after SendData, pauses the source above
//     Options.StreamBufferHigh and resumes it at OnWritable;
//   - calls Stream.Consumed for the bytes of OnData once they were passed on:
//     only then the peer may send more;
//   - writes *out and calls Close when Feed returns an error, and calls Close
//     when the socket ends. Either way each stream gets OnReset and OnClosed.
//
// Every method may be called from within a callback, and a callback may end any
// stream; Feed and Init may not. A Stream is forgotten at OnClosed. Strings of a
// header list live in that list; bytes given to OnData are valid during the call
// only, and a list given to SendTrailers has to stay as it is until OnClosed.
//
// What is invalid, and with which response code details, was measured on Envoy
// 1.40. On purpose not as there: a header block that goes on for more than four
// times max_headers_kb and a MiB, or for more than 2048 CONTINUATION frames,
// ends the connection, and faults that RFC 9113 calls stream errors (a
// WINDOW_UPDATE of 0, a stream that depends on itself) reset the stream.
package http2
