package healthcheck

import (
	"net"

	"github.com/xebec-proxy/xebec/filter/header"
)

// wire is an open connection that checks are made over. Its reads and writes end at
// the deadline that its owner has set.
type wire interface {
	// check makes one check. again tells that the connection can carry another one.
	check() (r Result, again bool)
	// idle takes what comes between two checks; it returns when the connection is of
	// no use any more, or at the deadline.
	idle() error
	// lost reports whether the end of the connection between two checks is a
	// failure of the host.
	lost() bool
}

// request is what is asked over HTTP.
type request struct {
	method string
	head   header.Map
	body   []byte
	keep   int // how much of the answer's body is kept; more is an error
}

// answer is the answer. It belongs to the wire.
type answer struct {
	head, trailers header.Map
	hasTrailers    bool
	found          finder // what of the body was looked for
	look           uint64 // how much more of it is looked through
	body           []byte // what is kept of it
	keep           int
	tooLong        bool
}

func (a *answer) begin(r *request, receive [][]byte, look uint64) {
	a.head.Reset()
	a.trailers.Reset()
	a.hasTrailers, a.found, a.look, a.body, a.keep, a.tooLong = false, newFinder(receive), look, a.body[:0], r.keep, false
}

// data takes a part of the body.
func (a *answer) data(b []byte) {
	if a.keep > 0 {
		if len(a.body)+len(b) > a.keep {
			a.tooLong = true
			return
		}
		a.body = append(a.body, b...)
	}
	n := min(uint64(len(b)), a.look)
	a.look -= n
	a.found.add(b[:n])
}

// closeNow ends a connection without a farewell.
func closeNow(c net.Conn) {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	_ = c.Close()
}
