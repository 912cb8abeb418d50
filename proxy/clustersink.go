package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Bounds of a clusterSink.
const (
	maxSinkQueue  = 16 << 20        // bytes that wait for a slow receiver, as in Envoy
	sinkWriteTime = 5 * time.Second // for each write
	sinkCloseTime = time.Second     // for what still waits at the end
)

// clusterSink sends statistics to the healthy hosts of a cluster in turn, over
// one TCP connection at a time that is opened when there is something to send
// (ST-14). A goroutine writes, so Send never waits. What cannot be delivered is
// dropped: statistics are worth nothing later.
type clusterSink struct {
	c        *clusterEntry
	main     *stats.Main
	overflow stats.Counter
	ctx      context.Context //nolint:containedctx // the sink's life, which begins before Run
	cancel   context.CancelFunc

	mu     sync.Mutex // guards the fields up to idle
	queue  [][]byte
	size   int
	busy   bool
	closed bool
	idle   sync.Cond // of mu: busy went false

	// Of the writing goroutine, of which there is one at a time.
	conn   net.Conn
	dialer dialer
}

// statsCluster makes a sink for stats_sinks that name a cluster.
func (p *Proxy) statsCluster(name string) (stats.LineSink, error) {
	var c *clusterEntry
	if s := p.res.clusters[name]; s != nil {
		c = s.active
	}
	switch {
	case c == nil:
		return nil, fmt.Errorf("unknown cluster '%s'", name)
	case c.opt.Transport != nil:
		return nil, fmt.Errorf("cluster '%s' has a transport_socket, and statistics over TLS are known but not built in this version", name)
	}
	s := &clusterSink{c: c, main: p.stat.Main(), dialer: dialer{main: p.stat.Main()}, overflow: p.stat.Scope("statsd").Counter("cx_overflow")}
	s.ctx, s.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // Close ends it
	s.idle.L = &s.mu
	return s, nil
}

// Send implements stats.LineSink.
func (s *clusterSink) Send(b []byte) bool {
	if len(s.c.Hosts().Hosts()) == 0 {
		return true // a cluster without hosts only drops
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.size+len(b) > maxSinkQueue {
		s.main.Inc(s.overflow)
		return false
	}
	s.queue = append(s.queue, append([]byte(nil), b...))
	s.size += len(b)
	if !s.busy {
		s.busy = true
		go s.drain()
	}
	return true
}

// Close gives what waits a second, and closes the connection. It returns after
// the goroutine.
func (s *clusterSink) Close() error {
	last := time.AfterFunc(sinkCloseTime, s.cancel)
	defer last.Stop()
	defer s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for s.busy {
		s.idle.Wait()
	}
	s.disconnect()
	return nil
}

// take takes what is next to be written; nil when there is nothing, and then
// the goroutine ends.
func (s *clusterSink) take() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 {
		s.busy = false
		s.idle.Broadcast()
		return nil
	}
	b := s.queue[0]
	s.queue = s.queue[1:]
	s.size -= len(b)
	return b
}

// drop drops what waits: the receiver cannot be reached.
func (s *clusterSink) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue, s.size = nil, 0
}

func (s *clusterSink) drain() {
	for b := s.take(); b != nil; b = s.take() {
		if err := s.write(b); err != nil {
			s.drop()
		}
	}
}

// write writes, on a new connection if there is none or the old one is dead and
// took nothing.
func (s *clusterSink) write(b []byte) error {
	reused := s.conn != nil
	if reused && s.dead() {
		s.disconnect()
		reused = false
	}
	if s.conn == nil {
		if err := s.dial(); err != nil {
			return err
		}
	}
	conn := s.conn
	_ = conn.SetWriteDeadline(time.Now().Add(sinkWriteTime))
	stop := context.AfterFunc(s.ctx, func() { _ = conn.SetWriteDeadline(time.Now()) })
	defer stop()
	n, err := conn.Write(b)
	if err == nil {
		return nil
	}
	s.disconnect()
	if reused && n == 0 {
		return s.write(b)
	}
	return fmt.Errorf("%w", err)
}

// dead reports whether the receiver has closed the connection, which a write
// would not tell. Receivers of statsd send nothing.
func (s *clusterSink) dead() bool {
	_ = s.conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	var b [256]byte
	for {
		_, err := s.conn.Read(b[:])
		if err == nil {
			continue
		}
		var timeout net.Error
		return errors.Is(err, io.EOF) || !errors.As(err, &timeout) || !timeout.Timeout()
	}
}

func (s *clusterSink) dial() error {
	c, err := s.dialer.dial(s.ctx, s.c, "")
	if err != nil {
		return err
	}
	s.conn = c
	return nil
}

// disconnect closes the connection, if there is one.
func (s *clusterSink) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}
