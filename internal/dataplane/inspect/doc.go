// Package inspect looks at the first bytes of a connection: TLS ClientHello,
// HTTP request line or HTTP/2 preface, PROXY protocol header.
//
// It is pure: no I/O, no clock, no goroutine. Each inspector is a configuration
// that any number of connections share, and gives every connection a scan
// value. The owner of the connection peeks, passes everything peeked so far
// (what an earlier call saw must come again, unchanged, in front of what is
// new), and calls again with more while the verdict is [NeedMore]. A scan
// remembers how far it got, so bytes arriving one by one cost the same as all
// at once; the answer never depends on how they were split. Results own their
// memory: the peeked bytes may be reused once a call returns.
//
// Where Envoy waits for a fixed number of bytes before it decides, a scan here
// decides at the first byte that settles the matter.
package inspect

// Verdict says what becomes of the connection after a call of Inspect.
type Verdict uint8

const (
	// NeedMore means that nothing is decided: call again with more bytes.
	NeedMore Verdict = iota
	// Done means that the result is complete and the connection goes on.
	Done
	// Reject means that the result is complete and the connection must be
	// closed without a reply.
	Reject
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	switch v {
	case NeedMore:
		return "need more"
	case Done:
		return "done"
	case Reject:
		return "reject"
	}
	return "unknown"
}
