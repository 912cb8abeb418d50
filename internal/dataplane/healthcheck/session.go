package healthcheck

import (
	"context"
	"errors"
	"net"
	"time"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
)

// session is one check of one host. It belongs to its goroutine.
type session struct {
	c    *Checker
	t    *target
	i    int // of the check
	conf *Config
	host *cluster.Host

	conn net.Conn // open, or nil
	wire wire
	off  func() bool // ends that the session's end closes conn
}

// run checks until ctx is done.
func (s *session) run(ctx context.Context) {
	defer s.close()
	if !sleep(ctx, s.conf.schedule.first(s.c.limits(), s.c.o.Random)) {
		return
	}
	for {
		r := s.check(ctx)
		if ctx.Err() != nil {
			return
		}
		if !s.rest(ctx, s.pause(r)) {
			return
		}
	}
}

// pause gives a result to the machine; it is when the next check is due.
func (s *session) pause(r Result) time.Time {
	step := s.c.take(s.t, s.i, r)
	return time.Now().Add(s.conf.schedule.next(r.Verdict.Passes(), step.Change, s.c.o.Cluster.Used(), s.c.limits(), s.c.o.Random))
}

// rest waits until the next check and minds the connection meanwhile. It is false
// when ctx is done.
func (s *session) rest(ctx context.Context, next time.Time) bool {
	for s.conn != nil {
		err := s.conn.SetDeadline(next)
		if err == nil {
			err = s.wire.idle()
		}
		if ctx.Err() != nil {
			return false
		}
		if isTimeout(err) {
			return true
		}
		lost := s.wire.lost()
		s.close()
		if lost {
			next = s.pause(Result{Verdict: NetworkFailed})
		}
	}
	return sleep(ctx, time.Until(next))
}

// check makes one check, on the connection that is open or on a new one.
func (s *session) check(ctx context.Context) Result {
	s.c.o.Sink.Add(s.c.counts[s.i].Attempt, 1)
	until := time.Now().Add(s.conf.timeout)
	if s.conn == nil {
		if err := s.open(ctx, until); err != nil {
			return failure(until)
		}
	}
	if err := s.conn.SetDeadline(until); err != nil {
		s.close()
		return Result{Verdict: NetworkFailed}
	}
	r, again := s.wire.check()
	if r.Verdict == NetworkFailed {
		r = failure(until)
	}
	if !again || !s.conf.reuse || r.Verdict == TimedOut {
		s.close()
	}
	return r
}

// failure tells no answer in time from no answer.
func failure(until time.Time) Result {
	if !time.Now().Before(until) {
		return Result{Verdict: TimedOut}
	}
	return Result{Verdict: NetworkFailed}
}

// open connects to the host.
func (s *session) open(ctx context.Context, until time.Time) error {
	dialling, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	conn, secure, err := s.c.o.Dial(dialling, s.host, s.conf, s.alpn())
	if err != nil {
		return err //nolint:wrapcheck // nobody sees it
	}
	s.conn = conn
	s.off = context.AfterFunc(ctx, func() { closeNow(conn) })
	s.wire = s.speak(conn, secure)
	return nil
}

// alpn is what is offered if nothing is configured.
func (s *session) alpn() string {
	switch {
	case s.conf.grpc != nil || s.conf.http != nil && s.conf.http.http2:
		return "h2"
	case s.conf.http != nil:
		return "http/1.1"
	}
	return ""
}

// speak makes of a connection what the check is made over.
func (s *session) speak(conn net.Conn, secure bool) wire {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	name, o := s.host.HealthCheckHostname(), &s.c.o
	verify := func() bool { return s.c.verify(s.i) }
	switch s.conf.kind {
	case datav3.HealthCheckerType_TCP:
		return &tcpWire{conf: s.conf.tcp, conn: conn}
	case datav3.HealthCheckerType_GRPC:
		req := s.conf.grpc.request(name, scheme, s.conf.timeout)
		return newH2Wire(conn, req, &o.HTTP2, func(a *answer) { a.begin(req, nil, 0) }, s.conf.grpc.judge)
	}
	conf := s.conf.http
	req := conf.request(name, scheme)
	if !conf.http2 {
		return newH1Wire(conn, conf, req, &o.HTTP1, verify)
	}
	return newH2Wire(conn, req, &o.HTTP2, func(a *answer) { a.begin(req, conf.receive, conf.look) }, func(a *answer) Result { return conf.judge(a, verify) })
}

// close ends the connection, if there is one.
func (s *session) close() {
	if s.conn == nil {
		return
	}
	s.off()
	closeNow(s.conn)
	s.conn, s.wire, s.off = nil, nil, nil
}

// sleep waits; it is false when ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}
