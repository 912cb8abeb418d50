package router

import (
	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
	"github.com/xebec-proxy/xebec/internal/dataplane/pool"
	"github.com/xebec-proxy/xebec/internal/dataplane/route"
)

// raw is the upstream side of a tunnel that ends here (HC-45): a connection of its
// own, on which the request's body is sent and the response's received. The head
// of the response, 200, is the proxy's own. It is the pool.Stream of an attempt.
type raw struct {
	u      *upstream
	cfg    *route.Connect
	tcp    *pool.TCP
	gone   bool // the attempt knows that it is over
	tx, rx uint64
}

// ends tells whether the request's tunnel ends here.
func (f *Filter) ends() *route.Connect {
	c := f.entry.Connect()
	if c != nil && (f.tunnel == connect || c.AllowPost && f.head.Method() == "POST") {
		return c
	}
	return nil
}

// dial opens the connection to a host.
func (u *upstream) dial(h *cluster.Host, cfg *route.Connect) {
	r := &raw{u: u, cfg: cfg}
	u.raw = r
	r.tcp = u.f.c.Dial(h, u.f.prio, u.f.info, r)
}

// OnOpen implements pool.TCPHandler.
func (r *raw) OnOpen() {
	if !r.gone {
		r.u.Ready(r)
	}
}

// OnFailed implements pool.TCPHandler.
func (r *raw) OnFailed(why pool.Reset, failure string) {
	if !r.gone {
		r.gone = true
		r.u.Failed(why, failure)
	}
}

// OnData implements pool.TCPHandler.
func (r *raw) OnData(data []byte) {
	if !r.gone {
		r.rx += uint64(len(data))
		r.u.OnData(data, false)
	}
}

// OnEnd implements pool.TCPHandler: as everywhere, the response's end is that of
// the stream.
func (r *raw) OnEnd() {
	if r.gone {
		return
	}
	r.gone = true
	r.tcp.Done()
	r.u.OnData(nil, true)
	r.tcp.Close(false)
}

// OnBlocked implements pool.TCPHandler.
func (r *raw) OnBlocked() {
	if !r.gone {
		r.u.OnBlocked()
	}
}

// OnDrained implements pool.TCPHandler.
func (r *raw) OnDrained() {
	if !r.gone {
		r.u.OnDrained()
	}
}

// OnClose implements pool.TCPHandler.
func (r *raw) OnClose(loop.Reason) {
	if !r.gone {
		r.gone = true
		r.u.OnReset(pool.ConnectionTermination, "")
	}
}

// SendHeaders implements pool.Stream. The host has no use for the head; the client
// is told that the tunnel is there.
func (r *raw) SendHeaders(_ *header.Map, end bool) {
	if v := r.cfg.ProxyHeader; v > 0 {
		c := r.u.f.info.Connection
		w := r.tcp.Conn().Writer()
		before := len(*w)
		*w = inspect.AppendProxyHeader(*w, v, c.Remote, c.Local)
		r.tx += uint64(len(*w) - before)
	}
	if end {
		r.tcp.Conn().CloseWrite()
	}
	r.u.resp.AddID(header.Status, "200")
	r.u.OnHeaders(false)
}

// SendData implements pool.Stream.
func (r *raw) SendData(data []byte, end bool) {
	if r.gone {
		return
	}
	r.tx += uint64(len(data))
	r.tcp.Conn().WriteBody(data)
	if end {
		r.tcp.Conn().CloseWrite()
	}
}

// SendTrailers implements pool.Stream: there is no place for them.
func (r *raw) SendTrailers(*header.Map) { r.SendData(nil, true) }

// Reset implements pool.Stream.
func (r *raw) Reset() {
	if !r.gone {
		r.gone = true
		r.tcp.Close(true)
	}
}

// Pause implements pool.Stream.
func (r *raw) Pause(pause bool) {
	switch {
	case r.gone:
	case pause:
		r.tcp.Conn().Pause()
	default:
		r.tcp.Conn().Resume()
	}
}

// Info implements pool.Stream.
func (r *raw) Info() *pool.ConnInfo { return r.tcp.Info() }

// Wire implements pool.Stream.
func (r *raw) Wire() (sent, received uint64) { return r.tx, r.rx }
