// Package tlsio is the TLS of the data plane: contexts built once from
// Envoy's DownstreamTlsContext and UpstreamTlsContext, and sessions that turn
// ciphertext into plaintext and back without doing any I/O themselves.
//
// A context ([ServerContext], [ClientContext]) is immutable after it was
// built, safe for concurrent use and shared by all workers. Every field of the
// messages it is built from that Xebec does not act on is refused by name.
//
// A [Session] is one connection's TLS. It belongs to one worker, which feeds
// it what the socket received and sends what it puts out. Only what computes
// long in the handshake, where it signs, verifies and agrees on keys, runs
// elsewhere, on goroutines, and reports back through the worker's queue:
//
//	s := serverContext.NewSession(tlsio.ConnInfo{Local: local, Remote: remote})
//	s.Start(ctx, loop.Post, flush, func(err error) { … })
//	s.Feed(received)           // whenever the socket was readable
//	n, err := s.Read(scratch)  // until ErrAgain, after done and after each Feed
//	err = s.Write(plain)       // then send s.Output() and s.Consumed(n)
//
// After the handshake crypto/tls runs on the worker over a connection that
// never blocks. It then relies on behaviour of crypto/tls that is not
// documented; TestTemporaryErrorsAreNotSticky says which, and what to do
// should a Go release change it.
package tlsio
