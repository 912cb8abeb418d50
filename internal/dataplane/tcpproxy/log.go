package tcpproxy

import (
	"errors"
	"time"

	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
	"github.com/xebec-proxy/xebec/internal/dataplane/loop"
)

// logging says when lines are written before a connection's last one
// (TcpProxy.access_log_options).
type logging struct {
	start     bool          // when it begins
	connected bool          // when its upstream connection is open
	interval  time.Duration // and each time so much has passed; 0 is never
}

func (l *logging) read(c *tcpv3.TcpProxy) error {
	every, connected := c.GetAccessLogFlushInterval(), c.GetFlushAccessLogOnConnected() //nolint:staticcheck // deprecated, and in use
	if o := c.GetAccessLogOptions(); o != nil {
		switch {
		case connected:
			return errors.New("access_log_options: Only one of flush_access_log_on_connected or access_log_options can be specified.") //nolint:staticcheck,revive // Envoy's text
		case every != nil:
			return errors.New("access_log_options: Only one of access_log_flush_interval or access_log_options can be specified.") //nolint:staticcheck,revive // Envoy's text
		}
		every, connected, l.start = o.GetAccessLogFlushInterval(), o.GetFlushAccessLogOnConnected(), o.GetFlushAccessLogOnStart()
	}
	l.connected, l.interval = connected, every.AsDuration()
	return nil
}

// sessionLogs writes the lines of one connection. Its timer is there only if it
// is used.
type sessionLogs struct {
	timer *loop.Timer
	ended bool
}

// start is called when the connection begins.
func (l *sessionLogs) start(s *session) {
	if s.cfg.log.start {
		l.write(s, "TcpConnectionStart")
	}
	if s.cfg.log.interval <= 0 || len(s.cfg.logs) == 0 {
		return
	}
	l.timer = &loop.Timer{}
	l.timer.Init(s.w.Loop, func() {
		l.write(s, "TcpPeriodic")
		l.timer.Set(s.cfg.log.interval)
	})
	l.timer.Set(s.cfg.log.interval)
}

// connected is called when the upstream connection is open.
func (l *sessionLogs) connected(s *session) {
	if s.cfg.log.connected {
		l.write(s, "TcpUpstreamConnected")
	}
}

// end writes the last line, once.
func (l *sessionLogs) end(s *session) {
	if l.ended {
		return
	}
	l.ended = true
	if l.timer != nil {
		l.timer.Unlink()
	}
	s.info.Timing.End = s.w.Loop.Now()
	l.write(s, "TcpConnectionEnd")
}

func (l *sessionLogs) write(s *session, kind string) {
	if s.info.RequestID == "" {
		s.info.RequestID = string(format.AppendUUID(nil))
	}
	if s.served { // nothing but what passes through is on the wire
		s.info.Upstream.WireSent, s.info.Upstream.WireReceived = s.info.BytesReceived, s.info.BytesSent
	}
	if len(s.cfg.logs) > 0 {
		c := format.Context{Info: s.info, Now: s.w.Loop.Wall(), LogType: kind}
		s.cfg.logs.Log(s.w.Log, &c)
	}
}
