package filtertest

import (
	"context"
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// Connection is a filter.Connection that keeps what is done to it. It is for
// one goroutine.
type Connection struct {
	stats Stats
	info  filter.StreamInfo
	conn  filter.ConnectionInfo
	// Sent is what was written, Ended whether it was half-closed.
	Sent  string
	Ended bool
	// Closed is how it was closed, if IsClosed.
	Closed   filter.CloseType
	IsClosed bool
	// Disabled counts ReadDisable.
	Disabled int
}

var _ filter.Connection = (*Connection)(nil)

// ContinueReading implements filter.Connection.
func (*Connection) ContinueReading() {}

// InjectRead implements filter.Connection.
func (*Connection) InjectRead([]byte, bool) {}

// InjectWrite implements filter.Connection.
func (c *Connection) InjectWrite(data []byte, end bool) { c.Write(data, end) }

// Write implements filter.Connection.
func (c *Connection) Write(data []byte, end bool) {
	c.Sent += string(data)
	c.Ended = c.Ended || end
}

// Close implements filter.Connection.
func (c *Connection) Close(how filter.CloseType, _ string) { c.Closed, c.IsClosed = how, true }

// ReadDisable implements filter.Connection.
func (c *Connection) ReadDisable(disable bool) {
	if disable {
		c.Disabled++
	} else {
		c.Disabled--
	}
}

// BufferLimit implements filter.Connection.
func (*Connection) BufferLimit() int { return 1 << 20 }

// Info implements filter.Connection.
func (c *Connection) Info() *filter.StreamInfo {
	c.info.Connection = &c.conn
	return &c.info
}

// Post implements filter.Connection.
func (*Connection) Post(f func()) { f() }

// Go implements filter.Connection.
func (*Connection) Go(work func(ctx context.Context) (done func())) {
	if done := work(context.Background()); done != nil { //nolint:forbidigo // a test's stream has no other
		done()
	}
}

// After implements filter.Connection; the time never comes.
func (*Connection) After(time.Duration, func()) filter.Timer { return never{} }

type never struct{}

// Stop implements filter.Timer.
func (never) Stop() {}

// Now implements filter.Connection.
func (*Connection) Now() time.Duration { return 0 }

// Random implements filter.Connection.
func (*Connection) Random() uint64 { return 0 }

// Stats implements filter.Connection.
func (c *Connection) Stats() filter.Stats { return &c.stats }

// Logger implements filter.Connection.
func (*Connection) Logger() *slog.Logger { return slog.New(slog.DiscardHandler) }
