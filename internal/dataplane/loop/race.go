package loop

import (
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// raceDelay is how long an address may take before the next one is tried as
// well (RFC 8305 section 5, CM-09).
const raceDelay = 300 * time.Millisecond

// race connects to the first of several addresses that answers. While it runs
// it stands in for its connection's socket.
type race struct {
	noSocket
	c     *Conn
	o     DialOptions
	rest  []filter.Address
	live  []*attempt
	timer Timer
	err   error // of the last address that failed
}

// attempt is one address that is being tried; it is the handler of a
// connection that lives until the race is decided.
type attempt struct {
	r *race
	c *Conn
}

// DialAny is Dial to one of several addresses: they are tried in order, the
// next one when the one before has failed or has not answered for 300 ms, and
// the first to be connected is used. There must be at least one.
func (l *Loop) DialAny(to []filter.Address, o *DialOptions, h Handler) *Conn {
	if len(to) == 1 {
		return l.Dial(to[0], o, h)
	}
	c := l.newConn(h)
	c.transport = o.Transport
	r := &race{c: c, o: *o, rest: to}
	r.o.Transport, r.o.Timeout = nil, 0
	c.sock = r
	r.timer.Init(l, r.next)
	if o.Timeout > 0 {
		c.setTimer(o.Timeout)
	}
	r.next()
	return c
}

// next tries the next address, if there is one.
func (r *race) next() {
	if len(r.rest) == 0 || r.c.state == closed {
		return
	}
	a := &attempt{r: r}
	to := r.rest[0]
	r.rest = r.rest[1:]
	r.live = append(r.live, a)
	a.c = r.c.loop.Dial(to, &r.o, a)
	if len(r.rest) > 0 {
		r.timer.Set(raceDelay)
	}
}

// OnOpen implements Handler: the race is won.
func (a *attempt) OnOpen() {
	r := a.r
	if r.c.state == closed {
		return
	}
	won := a.c.sock
	a.c.sock, a.c.state = noSocket{}, closed
	r.c.loop.open--
	r.forget(a)
	r.stop()
	won.adopt(r.c)
	r.c.sock = won
	r.c.reading, r.c.writing = a.c.reading, a.c.writing
	r.c.connected()
}

// OnClose implements Handler: this address is out.
func (a *attempt) OnClose(_ Reason, err error) {
	r := a.r
	r.forget(a)
	if r.c.state != connecting {
		return
	}
	r.err = err
	r.next()
	if len(r.live) == 0 {
		r.c.end(ConnectFailed, r.err, false)
	}
}

// OnData implements Handler.
func (a *attempt) OnData([]byte) {}

// OnEnd implements Handler.
func (a *attempt) OnEnd() {}

// OnBlocked implements Handler.
func (a *attempt) OnBlocked() {}

// OnDrained implements Handler.
func (a *attempt) OnDrained() {}

func (r *race) forget(a *attempt) {
	for i, x := range r.live {
		if x == a {
			r.live = append(r.live[:i], r.live[i+1:]...)
			return
		}
	}
}

// stop ends every attempt.
func (r *race) stop() {
	r.timer.Unlink()
	for len(r.live) > 0 {
		r.live[0].c.Abort(false) // forgets itself
	}
}

// close implements socket: the connection is given up before it was made.
func (r *race) close(bool) { r.stop() }
