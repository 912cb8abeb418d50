package xdsclient

import (
	"context"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// link is one logical stream to one server, across reconnects: the protocol's
// state, and when to open, to send and to try again. Guarded by the source's
// mutex, except for what a goroutine is given.
type link struct {
	s       *Source
	srv     *server
	typeURL string // empty for an aggregated stream
	ch      *client.Channel

	subscribed int  // names
	dirty      bool // to be woken at the end of the batch

	state    linkState
	attempt  uint64 // events of former streams are not for this one
	cancel   context.CancelFunc
	out      chan []*client.Request // nil, or room for one batch
	prompt   prompt                 // nil, or takes requests itself if it can
	writable bool
	urgent   bool      // what is due does not wait for more
	sent     time.Time // the last batch
	opened   time.Time
	heard    time.Time // the end of the last stream that had a response
	answered bool      // a response has come on this stream
	failures int       // attempts in a row without a response
	err      error     // of the last attempt, while there is no response

	transport int    // which of the server's
	counted   uint64 // waits for the rate limit that are in the statistics
	expiring  bool   // events are those of timers
	// room is closed when answers that wait are few again; nil if they are.
	room chan struct{}
	// skipped are events of a server that has yet to prove itself, by type and
	// name.
	skipped map[xds.Key]client.Event

	wakeUp, retry, linger, disowning *time.Timer
	wakeAt                           time.Time
}

type linkState uint8

const (
	resting linkState = iota
	waiting           // for the next attempt
	opening
	open
)

// gather is how long a changed subscription waits for more changes if one was
// sent just before, so that many watches in a row become few requests (GC-35).
const gather = 10 * time.Millisecond

func newLink(s *Source, srv *server, typeURL string) *link {
	l := &link{s: s, srv: srv, typeURL: typeURL}
	l.ch = l.newChannel()
	return l
}

func (l *link) newChannel() *client.Channel {
	c := client.Config{
		Delta: l.s.cfg.Delta, ResourceTimeout: l.s.cfg.ResourceTimeout, TransientTimeout: l.srv.Policy.TimeoutIsTransient,
		WholeResponses: l.s.cfg.WholeResponses, RepeatNode: l.s.cfg.RepeatNode, Checker: checker{l},
		Withheld: l.s.withheld.has,
	}
	if r := l.s.cfg.RateLimit; r != nil {
		c.Limit = &client.Limit{Burst: r.Burst, PerSecond: r.PerSecond}
	}
	return client.New(c)
}

// renew forgets what the server has sent.
func (l *link) renew() {
	l.ch, l.skipped, l.counted = l.newChannel(), nil, 0
	for _, a := range l.s.authorities {
		if a.uses(l) {
			l.s.wanted(a, l, func(t *typeState, name string) { l.ch.Subscribe(t.Type, name) })
		}
	}
}

func (l *link) subscribe(t xds.Type, name string) {
	l.ch.Subscribe(t, name)
	l.subscribed++
	l.dirty = true
}

func (l *link) unsubscribe(typeURL, name string) {
	l.ch.Unsubscribe(typeURL, name)
	l.subscribed--
	l.dirty = true
}

// wake does what a changed subscription asks for.
func (l *link) wake() {
	switch {
	case l.subscribed == 0:
		l.pump()
		l.linger = l.after(l.linger, l.s.cfg.Linger, l.rest)
	case l.state == resting:
		l.start()
	default:
		l.pump()
	}
}

// rest closes a stream that nobody needs (GC-31).
func (l *link) rest() {
	if l.subscribed > 0 {
		return
	}
	if l.state == open {
		l.s.gauge(StatConnected, l, 0)
	}
	l.stop()
	l.ch, l.skipped, l.err, l.failures, l.counted = l.newChannel(), nil, nil, 0, 0
	for _, t := range l.s.types {
		if l.carries(t.URL) {
			t.forgetIdle()
		}
	}
}

// stop ends the stream and the timers.
func (l *link) stop() {
	for _, t := range []*time.Timer{l.wakeUp, l.retry, l.linger, l.disowning} {
		if t != nil {
			t.Stop()
		}
	}
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	l.state, l.out, l.prompt, l.wakeAt = resting, nil, nil, time.Time{}
	l.attempt++
}

// after runs an event of the link later.
func (l *link) after(t *time.Timer, d time.Duration, do func()) *time.Timer {
	if t != nil {
		t.Stop()
	}
	if l.s.ctx.Err() != nil {
		return t
	}
	return time.AfterFunc(d, func() { l.s.post(do) })
}

// start opens a stream.
func (l *link) start() {
	if l.s.ctx.Err() != nil {
		return
	}
	if l.subscribed == 0 {
		l.rest()
		return
	}
	l.attempt++
	l.state, l.answered, l.opened = opening, false, time.Now()
	ctx, cancel := context.WithCancel(l.s.ctx)
	l.cancel = cancel
	transports := append([]Transport{l.srv.Transport}, l.srv.Alternates...)
	c := &connection{
		s: l.s, l: l, attempt: l.attempt, cancel: cancel,
		opening: Opening{TypeURL: l.typeURL, Delta: l.s.cfg.Delta, Node: l.s.node},
	}
	l.s.streams.Add(1)
	go c.run(ctx, transports[l.transport%len(transports)])
}

// established: requests can be sent.
func (l *link) established(out chan []*client.Request, now prompt) {
	l.state, l.out, l.prompt, l.writable, l.urgent = open, out, now, true, true
	l.ch.Open(time.Now())
	l.s.cfg.Logger.Info("connected", "server", l.srv.Name, "type", xds.Kind(l.typeURL))
	l.s.gauge(StatConnected, l, 1)
	l.pump()
}

// pump hands over what is due, if the stream can take it, and sets the timer
// for what will be.
func (l *link) pump() {
	now := time.Now()
	if l.state == open && l.writable {
		if wait := l.sent.Add(gather).Sub(now); !l.urgent && wait > 0 {
			l.wakeUpAt(l.sent.Add(gather))
			return
		}
		l.urgent = false
		if batch := l.due(now); len(batch) > 0 {
			l.writable = false
			l.out <- batch
		}
	}
	l.limited()
	if l.room != nil && l.ch.Stats().Pending <= maxPending {
		close(l.room)
		l.room = nil
	}
	if at, ok := l.ch.Deadline(); ok {
		l.wakeUpAt(at)
	}
}

// due sends what is due as far as that needs no waiting, and returns the rest.
func (l *link) due(now time.Time) (batch []*client.Request) {
	for r := l.ch.Next(now); r != nil; r = l.ch.Next(now) {
		l.sent = now
		l.requested(r)
		if len(batch) > 0 || l.prompt == nil || !l.prompt.trySend(r) {
			batch = append(batch, r)
		}
	}
	return batch
}

func (l *link) requested(r *client.Request) {
	t := l.s.types[r.TypeURL]
	if t == nil {
		return
	}
	t.forgetIdle()
	if !r.Answer {
		l.s.count(StatUpdateAttempt, l, r.TypeURL, 1)
	}
}

// wakeUpAt sets the timer, unless it is set for then.
func (l *link) wakeUpAt(at time.Time) {
	if at.Equal(l.wakeAt) {
		return
	}
	l.wakeAt = at
	l.wakeUp = l.after(l.wakeUp, time.Until(at), l.tick)
}

// tick works off what time has brought.
func (l *link) tick() {
	l.wakeAt = time.Time{}
	l.expire()
	l.pump()
}

func (l *link) expire() {
	l.expiring = true
	defer func() { l.expiring = false }()
	for _, list := range l.ch.Expire(time.Now()) {
		for i := range list.Events {
			l.apply(list.TypeURL, &list.Events[i])
		}
	}
}

// written: the batch has been sent.
func (l *link) written() {
	l.writable = true
	l.pump()
}

// ended: the stream is over, or there was none.
func (l *link) ended(err error) {
	now := time.Now()
	l.cancel()
	l.cancel, l.out, l.prompt = nil, nil, nil
	wasOpen := l.state == open
	answered := l.ch.Closed(now)
	if wasOpen {
		l.s.gauge(StatConnected, l, 0)
	}
	l.state = waiting
	var delay time.Duration
	if answered {
		l.heard = now
		delay = max(0, l.s.cfg.Backoff.Base-now.Sub(l.opened))
		l.s.cfg.Logger.Info("the stream ended", "server", l.srv.Name, "type", xds.Kind(l.typeURL), "reason", err)
	} else {
		delay = l.missed(err)
	}
	l.retry = l.after(l.retry, delay, l.start)
}

// missed works off an attempt without a response, and says when to try again: at
// once if there is another way to the server (XC-31), else when the back-off is
// over.
func (l *link) missed(err error) (delay time.Duration) {
	l.failures++
	l.transport++
	l.s.count(StatServerFailure, l, "", 1)
	l.failedTypes()
	ways := 1 + len(l.srv.Alternates)
	if l.failures%ways == 0 {
		delay = l.s.cfg.Backoff.delay(l.failures / ways)
	}
	l.s.cfg.Logger.Warn("the server cannot be reached", "server", l.srv.Name, "type", xds.Kind(l.typeURL), "reason", err, "retry_in", delay)
	if l.failures%ways == 0 {
		l.err = err
		l.s.failed(l)
	}
	return delay
}

// maxPending is how many requests may wait for the rate limit or a slow
// transport before no more responses are read.
const maxPending = 16

// received works off a response. The next one is to be read when the channel it
// returns is closed, if it returns one.
func (l *link) received(r *client.Response) chan struct{} {
	first := !l.answered
	l.answered, l.failures, l.err = true, 0, nil
	if first {
		l.s.reached(l)
	}
	now := time.Now()
	out := l.ch.Receive(now, r)
	if !out.Ignored {
		l.outcome(&out, now)
		l.s.lead() // what it leads to is asked for with the answer
	}
	l.urgent = true
	l.pump()
	if l.ch.Stats().Pending > maxPending {
		l.room = make(chan struct{})
	}
	return l.room
}
