package filter

import (
	"context"
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/filter/header"
)

// HeadersStatus is what a filter answers to headers (HF-02,
// envoy/http/filter.h FilterHeadersStatus).
type HeadersStatus uint8

// Answers to headers.
const (
	// Continue goes on with the next filter.
	Continue HeadersStatus = iota
	// StopIteration keeps the headers from later filters; this filter still
	// gets data and trailers.
	StopIteration
	// ContinueAndDontEndStream goes on as if more were to come, though the
	// headers ended the stream; the filter adds body or trailers later.
	ContinueAndDontEndStream
	// StopAllIterationAndBuffer holds everything back, from this filter too,
	// and buffers data up to the limit.
	StopAllIterationAndBuffer
	// StopAllIterationAndWatermark holds everything back and pauses the sender
	// at the limit.
	StopAllIterationAndWatermark
)

// DataStatus is what a filter answers to data (HF-03, FilterDataStatus).
type DataStatus uint8

// Answers to data.
const (
	// DataContinue goes on with the next filter, with everything buffered so far.
	DataContinue DataStatus = iota
	// DataStopIterationAndBuffer keeps the data in the stream's buffer; beyond
	// its limit the answer is 413 (requests) or 500 (responses).
	DataStopIterationAndBuffer
	// DataStopIterationAndWatermark keeps the data and pauses the sender at the
	// limit.
	DataStopIterationAndWatermark
	// DataStopIterationNoBuffer drops the data: the filter has taken them.
	DataStopIterationNoBuffer
)

// TrailersStatus is what a filter answers to trailers (HF-03).
type TrailersStatus uint8

// Answers to trailers.
const (
	// TrailersContinue goes on with the next filter.
	TrailersContinue TrailersStatus = iota
	// TrailersStop waits for ContinueDecoding or ContinueEncoding.
	TrailersStop
)

// Decoder sees a request on its way upstream, in configured order.
type Decoder interface {
	// DecodeHeaders gets the request head; end says that nothing follows.
	DecodeHeaders(h *header.Map, end bool) HeadersStatus
	// DecodeData gets a part of the body; end says that it is the last and that
	// no trailers follow.
	DecodeData(data *Buffer, end bool) DataStatus
	// DecodeTrailers gets the trailers, which end the request.
	DecodeTrailers(t *header.Map) TrailersStatus
}

// Encoder sees a response on its way downstream, in reverse order.
type Encoder interface {
	// Encode1xx gets an informational head; every one passes (HC-16).
	Encode1xx(h *header.Map)
	// EncodeHeaders gets the response head.
	EncodeHeaders(h *header.Map, end bool) HeadersStatus
	// EncodeData gets a part of the body.
	EncodeData(data *Buffer, end bool) DataStatus
	// EncodeTrailers gets the trailers.
	EncodeTrailers(t *header.Map) TrailersStatus
}

// HTTPFilter is one filter of one stream: a decoder, an encoder or both. It may
// also implement Completer, Destroyer and LocalReplyWatcher.
type HTTPFilter struct {
	Decoder Decoder
	Encoder Encoder
}

// Completer is told when the stream has ended, before access logs are written.
type Completer interface{ OnStreamComplete() }

// Destroyer is told once that the filter's stream is gone, after access logs.
type Destroyer interface{ OnDestroy() }

// LocalReplyWatcher is told of a local reply before it is encoded, whichever
// filter sent it (HF-05).
type LocalReplyWatcher interface {
	// OnLocalReply may ask to reset the stream instead of replying.
	OnLocalReply(r *LocalReply) (reset bool)
}

// DownstreamWatermarks is told when the client does not keep up: a filter that
// produces response data should pause between the two calls.
type DownstreamWatermarks interface {
	OnAboveHighWatermark()
	OnBelowLowWatermark()
}

// LocalReply is an answer that the proxy makes itself (HC-48).
type LocalReply struct {
	// Status is the HTTP status. Requests of gRPC get 200 and a grpc-status.
	Status int
	// Body is text/plain, unless Edit says otherwise.
	Body string
	// Details is the %RESPONSE_CODE_DETAILS%.
	Details string
	// GRPCStatus, if GRPCSet, replaces the mapping from Status.
	GRPCStatus uint32
	GRPCSet    bool
	// Edit, if not nil, may change the response's headers.
	Edit func(h *header.Map)
}

// Callbacks are what a filter can do to its stream. One value belongs to one
// filter of one stream; it is confined to the worker, but for Post and Go, and
// must not be used after OnDestroy.
type Callbacks interface {
	// ContinueDecoding goes on behind this filter after it stopped.
	ContinueDecoding()
	// ContinueEncoding goes on with the response behind this filter.
	ContinueEncoding()

	// DecodingBuffer is the request body held back so far, to be read or
	// changed, or nil.
	DecodingBuffer() *Buffer
	// EncodingBuffer is the response body held back so far, or nil.
	EncodingBuffer() *Buffer
	// AddDecodedData adds request body: to the buffer, or from a headers or
	// trailers callback to what later filters get.
	AddDecodedData(data []byte)
	// AddEncodedData adds response body.
	AddEncodedData(data []byte)
	// InjectDecodedData gives request data to the filters behind this one now.
	InjectDecodedData(data []byte, end bool)
	// InjectEncodedData gives response data to the filters behind this one now.
	InjectEncodedData(data []byte, end bool)
	// AddDecodedTrailers makes trailers for a request that has none; only from
	// a data callback with end set.
	AddDecodedTrailers() *header.Map
	// AddEncodedTrailers makes trailers for a response that has none.
	AddEncodedTrailers() *header.Map

	// RequestHeaders is the request head.
	RequestHeaders() *header.Map
	// ResponseHeaders is the response head, or nil before there is one.
	ResponseHeaders() *header.Map

	// SendLocalReply answers the request; no decode callback follows (HF-05).
	SendLocalReply(r LocalReply)
	// ResetStream ends the stream without an answer.
	ResetStream(details string)

	// FilterName is the name under which this filter is configured.
	FilterName() string
	// Info is what is known of the stream; filters may add to it.
	Info() *StreamInfo
	// Route is the route the request takes, or nil. It is cached.
	Route() Route
	// ClearRouteCache makes the route be matched again at its next use (HF-07).
	ClearRouteCache()
	// RouteConfig is the most specific per-route configuration of this filter,
	// as its type's ParseRoute made it, or nil (HF-10).
	RouteConfig() any
	// RouteConfigs yields every level's configuration, the most general first.
	RouteConfigs(yield func(cfg any) bool)

	// BufferLimit is how many bytes of the request may be buffered.
	BufferLimit() int
	// SetBufferLimit changes it for this stream.
	SetBufferLimit(n int)

	// Post runs f on the worker if the stream still lives then. It may be
	// called from any goroutine.
	Post(f func())
	// Go runs work on a goroutine of its own, with a context that ends with the
	// stream, and what it returns on the worker if the stream still lives.
	Go(work func(ctx context.Context) (done func()))
	// After runs f on the worker after a time unless stopped or the stream ends.
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

// Timer is a timer of a stream or a connection.
type Timer interface {
	// Stop makes sure that the function will not run.
	Stop()
}

// Route is what filters may know of a route.
type Route interface {
	// Name is the route's name.
	Name() string
	// VirtualHost is the name of its virtual host.
	VirtualHost() string
	// Cluster is the cluster it leads to, or "".
	Cluster() string
}
