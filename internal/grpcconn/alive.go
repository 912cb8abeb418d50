package grpcconn

import (
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// onPing asks a server that has been silent for long whether it is there, and
// gives it up if it does not answer. The timer is not set for each message, but
// looks how long ago the last was.
func (c *Conn) onPing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	silent := time.Since(c.lastRead)
	asked := c.pingedAt.After(c.lastRead)
	switch {
	case asked && time.Since(c.pingedAt) >= c.o.PingTimeout:
		c.fail(http2.Cancel, status.Errorf(codes.Unavailable, "the server has been silent for %s and does not answer a ping", silent.Round(time.Second)))
	case asked:
		c.pingTimer.Reset(c.o.PingTimeout - time.Since(c.pingedAt))
	case c.h2.Active() == 0: // servers take it amiss
		c.pingTimer.Reset(c.o.PingAfter)
	case silent < c.o.PingAfter:
		c.pingTimer.Reset(c.o.PingAfter - silent)
	default:
		c.pingedAt = time.Now()
		c.prepare()
		c.h2.Ping([8]byte{})
		c.settle()
		if c.err == nil {
			c.pingTimer.Reset(c.o.PingTimeout)
		}
	}
}
