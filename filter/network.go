package filter

import (
	"context"
	"log/slog"
	"time"
)

// NetworkStatus is what a network filter answers (NF-01).
type NetworkStatus uint8

// Answers of network filters.
const (
	// NetworkContinue goes on with the next filter.
	NetworkContinue NetworkStatus = iota
	// NetworkStop holds later filters back until ContinueReading.
	NetworkStop
)

// ReadFilter sees what a client sends, in configured order.
type ReadFilter interface {
	// OnNewConnection comes before any data.
	OnNewConnection() NetworkStatus
	// OnData gets what has been received and not been drained yet; end says
	// that the client has half-closed. What a filter leaves in the buffer while
	// it stops is kept and comes again with more.
	OnData(data *Buffer, end bool) NetworkStatus
}

// WriteFilter sees what is sent to a client, in reverse order.
type WriteFilter interface {
	OnWrite(data *Buffer, end bool) NetworkStatus
}

// NetworkFilter is one filter of one connection: read, write or both. It may
// also implement ConnectionWatcher.
type NetworkFilter struct {
	Read  ReadFilter
	Write WriteFilter
}

// ConnectionWatcher is told of the connection's events.
type ConnectionWatcher interface {
	// OnAboveHighWatermark says that the client does not take what is written.
	OnAboveHighWatermark()
	// OnBelowLowWatermark says that it does again.
	OnBelowLowWatermark()
	// OnClose says that the connection is gone; it comes once. Remote tells
	// whether the client closed it.
	OnClose(remote bool)
}

// CloseType says how a connection is closed (NF-22).
type CloseType uint8

// Ways to close a connection.
const (
	// FlushWrite sends what is buffered, then closes.
	FlushWrite CloseType = iota
	// NoFlush closes at once.
	NoFlush
	// FlushWriteAndDelay sends, then waits a little for the client to close, so
	// that it can read the last bytes.
	FlushWriteAndDelay
	// Abort resets the connection.
	Abort
)

// Connection is what a network filter can do to its connection. It is confined
// to the worker, but for Post and Go.
type Connection interface {
	// ContinueReading goes on behind this filter after it stopped.
	ContinueReading()
	// InjectRead gives data to the read filters behind this one.
	InjectRead(data []byte, end bool)
	// InjectWrite gives data to the write filters behind this one.
	InjectWrite(data []byte, end bool)
	// Write sends data to the client through the write filters; end half-closes.
	Write(data []byte, end bool)
	// Close ends the connection; details are %CONNECTION_TERMINATION_DETAILS%.
	Close(how CloseType, details string)
	// ReadDisable stops reading from the client, counted: each true needs a false.
	ReadDisable(disable bool)
	// BufferLimit is the connection's per_connection_buffer_limit_bytes.
	BufferLimit() int

	// Info is what is known of the connection.
	Info() *StreamInfo
	// Post runs f on the worker if the connection still lives then; from any goroutine.
	Post(f func())
	// Go runs work on a goroutine, and what it returns on the worker if the
	// connection still lives.
	Go(work func(ctx context.Context) (done func()))
	// After runs f on the worker after a time.
	After(d time.Duration, f func()) Timer
	// Now is the worker's time since the process started.
	Now() time.Duration
	// Random is a random number of the worker.
	Random() uint64
	// Stats is where this worker counts.
	Stats() Stats
	// Logger is the proxy's logger.
	Logger() *slog.Logger
}

// ListenerStatus is what a listener filter answers (LF-01).
type ListenerStatus uint8

// Answers of listener filters.
const (
	// ListenerContinue goes on with the next filter.
	ListenerContinue ListenerStatus = iota
	// ListenerWait needs more bytes.
	ListenerWait
	// ListenerReject closes the connection.
	ListenerReject
)

// ListenerFilter looks at a connection before its filter chain is chosen.
type ListenerFilter interface {
	// OnAccept comes first; ListenerWait asks for bytes.
	OnAccept(c *Accepted) ListenerStatus
	// OnData gets all bytes received so far. Consumed bytes are taken out of
	// the stream; others stay for later filters and the transport socket (LF-02).
	OnData(c *Accepted, peeked []byte) (status ListenerStatus, consumed int)
}

// Accepted is a connection whose filter chain is not chosen yet. Listener
// filters may fill its fields.
type Accepted struct {
	// Info is the connection; its addresses, names and metadata may be set.
	Info *StreamInfo
	// TransportProtocol is "tls", "raw_buffer" or "" when nobody looked.
	TransportProtocol string
	// ApplicationProtocols is what the client offers.
	ApplicationProtocols []string
	// Stats is where this worker counts.
	Stats Stats
	// Logger is the proxy's logger.
	Logger *slog.Logger
	// Socket is what the system knows of the connection; nil if nobody can ask it.
	Socket Socket
}

// Socket is the system's side of a connection. It is confined to the worker.
type Socket interface {
	// OriginalDestination is where the client wanted to go before the system
	// redirected the connection here (Linux, SO_ORIGINAL_DST); false if it does not
	// know, as everywhere else. It is the listener's address if it was not redirected.
	OriginalDestination() (Address, bool)
}
