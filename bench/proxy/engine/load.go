package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// maxReopened is how many closed connections end a run.
const maxReopened = 100_000

// serveTime is how often Serve looks whether it should end.
const serveTime = 100 * time.Millisecond

// grpcPrefix is the length of the prefix of a gRPC message.
const grpcPrefix = 5

// Options say what load to drive.
type Options struct {
	// Target is the proxy.
	Target netip.AddrPort
	// HTTP2 uses HTTP/2 with prior knowledge instead of HTTP/1.1; GRPC, which
	// includes HTTP2, unary calls of gRPC.
	HTTP2, GRPC bool
	// Connections is how many there are, Streams how many requests at once each
	// of them has with HTTP/2 (with HTTP/1.1 it is one).
	Connections, Streams int
	// Rate is how many requests a second begin, at random times, whether or not
	// others have ended; 0 begins each when another ends.
	Rate float64
	// Sleep makes the loop sleep until a request is due, which takes the system a
	// little longer than to spin: for a core that others need too.
	Sleep bool
	// RequestBody and ResponseBody are the bodies' bytes, with gRPC those of the
	// message in it.
	RequestBody, ResponseBody int
	// Upstream1 and Upstream2 are where to answer as the upstream, by HTTP/1.1
	// and by HTTP/2.
	Upstream1, Upstream2 []netip.AddrPort
}

// Result is what a time of load came to.
type Result struct {
	// Requests were answered; Wrong of them not as they should, or only after
	// their connection was closed.
	Requests, Wrong int64
	// Bytes were received from the proxy.
	Bytes int64
	// Time is how long it took.
	Time time.Duration
	// Latency is from when a request was due to the end of its response.
	Latency Histogram
}

// Load is clients and upstream in one loop.
type Load struct {
	loop    *Loop
	options Options

	request1, response1              []byte
	request2, response2              []byte
	requestHead2, head2, trailers2   blocks
	requests, wrong, bytes, reopened int64
	latency                          Histogram
	idle1                            []*http1Client
	all2                             []*http2Client
	turn2                            int
	waiting                          []int64 // due requests without a connection
	nextDue                          float64
	random                           *rand.Rand
}

// New makes clients and upstream; it listens but does not yet connect.
func New(o Options) (*Load, error) {
	loop, err := NewLoop()
	if err != nil {
		return nil, err
	}
	l := &Load{
		loop: loop, options: o, random: rand.New(rand.NewPCG(1, 2)),
		request1: http1Request(o.RequestBody), response1: http1Response(o.ResponseBody),
		request2: body(o.RequestBody, o.GRPC), response2: body(o.ResponseBody, o.GRPC),
		requestHead2: requestBlocks(&o), head2: responseBlocks(&o), trailers2: trailerBlocks(),
	}
	for _, a := range o.Upstream1 {
		err = errors.Join(err, loop.listen(a, func(fd int) {
			loop.add(fd, &http1Server{loop: loop, fd: fd, response: l.response1})
		}))
	}
	for _, a := range o.Upstream2 {
		err = errors.Join(err, loop.listen(a, l.acceptHTTP2))
	}
	if err != nil {
		loop.Close()
		return nil, err
	}
	return l, nil
}

// body is a message of some bytes, with gRPC's prefix if that is asked for.
func body(n int, grpc bool) []byte {
	if !grpc {
		return make([]byte, n)
	}
	b := make([]byte, grpcPrefix+n)
	binary.BigEndian.PutUint32(b[1:], uint32(n))
	return b
}

// Close closes everything.
func (l *Load) Close() { l.loop.Close() }

// Connect opens the connections and begins to send.
func (l *Load) Connect() error {
	for range l.options.Connections {
		fd, err := dial(l.options.Target)
		if err != nil {
			return err
		}
		if l.options.HTTP2 || l.options.GRPC {
			l.begin2(l.openHTTP2(fd))
			continue
		}
		c := &http1Client{load: l, fd: fd}
		l.loop.add(fd, c)
		if l.options.Rate > 0 {
			l.idle1 = append(l.idle1, c)
		} else {
			c.send(l.loop.now())
		}
	}
	return nil
}

func (l *Load) begin2(c *http2Client) {
	l.all2 = append(l.all2, c)
	if l.options.Rate == 0 {
		for range l.options.Streams {
			c.send(l.loop.now())
		}
	}
	c.flush()
}

// Serve answers as the upstream until the context ends or it fails.
func (l *Load) Serve(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := l.loop.run(l.loop.now()+int64(serveTime), nil); err != nil {
			return err
		}
	}
	return nil
}

// Run drives load for a time. What it returns is of this time alone.
func (l *Load) Run(d time.Duration) (*Result, error) {
	l.requests, l.wrong, l.bytes, l.latency = 0, 0, 0, Histogram{}
	var before func(int64) int64
	begin := l.loop.now()
	if l.options.Rate > 0 {
		before = l.begin
		if l.nextDue == 0 {
			l.nextDue = float64(begin)
		}
	}
	if err := l.loop.run(begin+int64(d), before); err != nil {
		return nil, fmt.Errorf("driving %s: %w", l.options.Target, err)
	}
	return &Result{
		Requests: l.requests, Wrong: l.wrong, Bytes: l.bytes,
		Time: time.Duration(l.loop.now() - begin), Latency: l.latency,
	}, nil
}

func (l *Load) record(ns int64) {
	l.requests++
	l.latency.add(ns)
}

// next says when the request was due that a connection which has become free
// should send; ok is false if there is none.
func (l *Load) next(now int64) (due int64, ok bool) {
	if l.options.Rate == 0 {
		return now, true
	}
	if len(l.waiting) == 0 {
		return 0, false
	}
	due = l.waiting[0]
	l.waiting = l.waiting[1:]
	return due, true
}

// begin begins the requests that have become due. It says when to look again.
func (l *Load) begin(now int64) int64 {
	for l.nextDue <= float64(now) {
		due := int64(l.nextDue)
		l.nextDue += l.random.ExpFloat64() * 1e9 / l.options.Rate
		if !l.begin1(due) && !l.sendOn2(due) {
			l.waiting = append(l.waiting, due)
		}
	}
	if l.options.Sleep {
		return int64(l.nextDue)
	}
	return now
}

// begin1 takes the connection that has been idle longest, so that all are used.
func (l *Load) begin1(due int64) bool {
	if len(l.idle1) == 0 {
		return false
	}
	c := l.idle1[0]
	l.idle1 = l.idle1[1:]
	c.send(due)
	return true
}

func (l *Load) sendOn2(due int64) bool {
	for range l.all2 {
		l.turn2++
		if c := l.all2[l.turn2%len(l.all2)]; c.free > 0 {
			c.send(due)
			c.flush()
			return true
		}
	}
	return false
}
