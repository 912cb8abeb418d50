package listener

import (
	"fmt"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// Port is a bound address: a listening socket for each worker. It serves one
// version of a listener after another, and there is no moment at which it does
// not accept (LM-04).
type Port struct {
	// Address has the real port; local is that of every accepted connection if
	// fixed.
	Address   filter.Address
	local     filter.Address
	fixed     bool
	users     int   // listeners that have it; not for workers
	fds       []int // by worker; -1 once the worker has taken it
	listening bool
	turns     []turn // by worker, and confined to it
}

// turn is what a worker has of a port.
type turn struct {
	ln *loop.Listener
	l  *Listener // whose connections these are
	s  *Socket
	// hushed says that connections wait for the next listener.
	hushed bool
}

// accept hands a connection to the listener whose turn it is.
func (t *turn) accept(w *Worker, c *loop.Conn, from filter.Address) { t.l.Accept(w, t.s, c, from) }

// use makes a socket's connections come from a port.
func (s *Socket) use(p *Port) {
	p.users++
	s.port = p
	s.Address, s.local, s.fixed = p.Address, p.local, p.fixed
}

// same reports whether two sockets can be one: they are asked for in the same
// words.
func (s *Socket) same(o *Socket) bool {
	return s.asked == o.asked && s.Mode == o.Mode && s.Compat == o.Compat && s.Bind == o.Bind && s.Reuse == o.Reuse && s.options.equal(&o.options)
}

func (o *socketOptions) equal(x *socketOptions) bool {
	return o.transparent == x.transparent && o.freebind == x.freebind && o.fastOpen == x.fastOpen && o.backlog == x.backlog &&
		proto.Equal(o.keepalive, x.keepalive) &&
		slices.EqualFunc(o.list, x.list, func(a, b *corev3.SocketOption) bool { return proto.Equal(a, b) })
}

// Share takes the ports of another version of the listener that are the same.
// Open binds the others.
func (l *Listener) Share(with *Listener) {
	for _, s := range l.Sockets {
		if s.port != nil {
			continue
		}
		for _, o := range with.Sockets {
			if o.port != nil && s.same(o) {
				s.use(o.port)
				break
			}
		}
	}
}

// Conflict is an address of the listener that another one has: two listeners
// cannot share one, bound or not. Port 0 is as many as one wants.
func (l *Listener) Conflict(with *Listener) (address string, ok bool) {
	for _, s := range l.Sockets {
		for _, o := range with.Sockets {
			if s.asked == o.asked && (s.asked.Pipe != "" || s.asked.IP.Port() != 0) {
				return s.asked.String(), true
			}
		}
	}
	return "", false
}

// SameReuse reports whether two versions of a listener agree in
// enable_reuse_port, which cannot change (LM-02).
func (l *Listener) SameReuse(with *Listener) bool {
	a, b := l.Config.GetEnableReusePort(), with.Config.GetEnableReusePort()
	return (a == nil || a.GetValue()) == (b == nil || b.GetValue())
}

// Start makes a worker accept the listener's connections, those of its ports
// that another version of it had, and those that other listeners hand off to it. It is called on the worker.
func (l *Listener) Start(w *Worker) error {
	w.claim(l)
	for _, s := range l.Sockets {
		if s.port == nil {
			continue
		}
		if err := s.port.start(w, l, s); err != nil {
			return fmt.Errorf("listener %s: %w", l.Name, err)
		}
	}
	return nil
}

// StopAccepting ends accepting on a worker, of this listener only.
func (l *Listener) StopAccepting(w *Worker) {
	for _, s := range l.Sockets {
		if s.port != nil {
			s.port.Stop(w)
		}
	}
}

// Hush lets connections to a listener that is gone wait for another one that has its
// ports and is not there yet. It is called on the worker.
func (l *Listener) Hush(w *Worker) {
	for _, s := range l.Sockets {
		if s.port == nil || w.ID >= len(s.port.turns) {
			continue
		}
		if t := &s.port.turns[w.ID]; t.l == l && t.ln != nil {
			t.hushed = true
			t.hear(w)
		}
	}
}

// Release gives the listener's ports up. It returns those that nobody has any
// more: each is to be given to Stop on every worker.
func (l *Listener) Release() []*Port {
	var free []*Port
	for _, s := range l.Sockets {
		if s.port == nil || s.released {
			continue
		}
		s.released = true
		if s.port.users--; s.port.users == 0 {
			free = append(free, s.port)
		}
	}
	return free
}

// Stop ends accepting on a worker.
func (p *Port) Stop(w *Worker) {
	if w.ID < len(p.turns) {
		if ln := p.turns[w.ID].ln; ln != nil {
			ln.Close()
		}
		p.turns[w.ID] = turn{}
	}
	p.closeOf(w.ID)
	delete(w.ports, p)
}

// Close closes the sockets that no worker has taken.
func (l *Listener) Close() {
	for _, s := range l.Sockets {
		if s.port != nil {
			s.port.Close()
		}
	}
}

// Close closes the sockets that no worker has taken.
func (p *Port) Close() {
	for i := range p.fds {
		p.closeOf(i)
	}
}
