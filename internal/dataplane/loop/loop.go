// Package loop is the proxy's worker: one goroutine that runs an event loop
// over its connections, its timers and the work that other goroutines post to
// it. On Linux the loop waits in epoll and keeps its processor; elsewhere, and
// in tests, the same loop is fed by goroutines that read net.Conns (portable).
//
// Everything but Post is confined to the loop's goroutine. Nothing on the path
// of a byte locks or allocates in the steady state.
package loop

import (
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/filter"
)

// Options configure a loop.
type Options struct {
	// NoRing makes the loop send for each connection by itself, instead of for
	// all of a turn by one call of io_uring, if the system has that.
	NoRing bool
	// Portable makes the loop run on net.Conns instead of epoll. It is implied
	// where there is no epoll.
	Portable bool
	// Logger is for what cannot be reported to a connection's handler.
	Logger *slog.Logger
	// Start is the instant that Now counts from; the zero time means now.
	Start time.Time
}

// scratchSize is how much one receive may bring. It is the loop's, so that an
// idle connection owns no buffer.
const scratchSize = 256 << 10

// idleWait bounds how long an idle loop waits before it looks around.
const idleWait = time.Second

// Loop is one worker.
type Loop struct {
	logger  *slog.Logger
	start   time.Time
	now     time.Duration
	idle    time.Duration // idleWait
	wheel   wheel
	scratch []byte
	plain   []byte // decrypted bytes

	dirty    []*Conn
	outgoing []outgoing // of those, while they are sent
	together sender     // nil: one by one
	alone    error      // why that is

	gathering

	slow []slow // the connections that are blocked
	// withheld is what was received of connections before they were paused.
	withheld map[*Conn][]byte
	ending   []func() // what waits for the end of the turn
	bufs     [][]byte // buffers to be used again
	kept     int      // bytes of them
	least    int      // fewest of them since Trim

	poll   poller
	onStop []func()
	closed bool
	open   int // connections that are not closed

	posted struct {
		waiting atomic.Bool // set while there may be something in list
		asleep  atomic.Bool // set while the loop waits and must be woken
		mu      sync.Mutex
		list    []func()
		stopped bool
	}
	running []func()
	rand    uint64
}

// New makes a loop. Run must be called to run it and to free what it holds.
func New(o Options) (*Loop, error) {
	l := &Loop{logger: o.Logger, start: o.Start, idle: idleWait}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.start.IsZero() {
		l.start = time.Now()
	}
	l.rand = uint64(time.Now().UnixNano()) | 1
	p, err := newPoller(l, &o)
	if err != nil {
		return nil, err
	}
	l.poll = p
	l.tick()
	l.wheel.init(l.now)
	return l, nil
}

// Now is the time since the start, read once per turn.
func (l *Loop) Now() time.Duration { return l.now }

// Wall is the wall time that belongs to Now.
func (l *Loop) Wall() time.Time { return l.start.Add(l.now) }

// SendsTogether reports whether the loop sends what a turn has brought by one
// system call; if not, the error says why.
func (l *Loop) SendsTogether() (bool, error) { return l.together != nil, l.alone }

// Start is the instant that Now counts from.
func (l *Loop) Start() time.Time { return l.start }

// Logger is the loop's logger.
func (l *Loop) Logger() *slog.Logger { return l.logger }

// Jitter is a time with a random part of it added, of at most a share.
func (l *Loop) Jitter(d time.Duration, share float64) time.Duration {
	return d + time.Duration(share*float64(d)*float64(l.Random()>>11)/(1<<53))
}

// Random is a pseudo-random number (xorshift64*), not for secrets.
func (l *Loop) Random() uint64 {
	x := l.rand
	x ^= x >> 12
	x ^= x << 25
	x ^= x >> 27
	l.rand = x
	return x * 0x2545f4914f6cdd1d
}

// Uint64 is Random, for what wants a source of random numbers.
func (l *Loop) Uint64() uint64 { return l.Random() }

// Blocked are the connections of which the system took less than it was given.
// All others have nothing to send, or send it at the end of the turn.
func (l *Loop) Blocked() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for i := range l.slow {
			if !yield(l.slow[i].conn) {
				return
			}
		}
	}
}

// slow is a blocked connection, with the whole buffer of an output of which
// only the end is left.
type slow struct {
	conn  *Conn
	start []byte
}

// noteBlocked keeps the list of what is blocked.
func (l *Loop) noteBlocked(c *Conn) {
	if c.blocked {
		c.blockedAt = int32(len(l.slow)) //nolint:gosec // as many as there are descriptors
		l.slow = append(l.slow, slow{conn: c})
		return
	}
	last := len(l.slow) - 1
	l.slow[c.blockedAt] = l.slow[last]
	l.slow[c.blockedAt].conn.blockedAt = c.blockedAt
	l.slow[last] = slow{}
	l.slow = l.slow[:last]
}

// Open is the number of open connections.
func (l *Loop) Open() int { return l.open }

func (l *Loop) tick() { l.now = time.Since(l.start) }

// Post runs f on the loop soon. It may be called from any goroutine; it
// reports false, and f will not run, when the loop has stopped.
func (l *Loop) Post(f func()) bool {
	waiting, ok := l.post(f)
	if waiting > 0 {
		l.rouse()
	}
	return ok
}

// PostUnhurried is Post for what changes nothing before the next event, such
// as another configuration for requests to come: f runs before the loop
// handles anything else, but does not wake it, unless much waits already. A
// loop at rest takes up to a second.
func (l *Loop) PostUnhurried(f func()) bool {
	waiting, ok := l.post(f)
	if waiting > mostUnhurried {
		l.rouse()
	}
	return ok
}

// mostUnhurried bounds what waits for a loop at rest, and with it how long the
// first request after that waits.
const mostUnhurried = 64

// post gives the loop something to do, and tells how much there is of it.
func (l *Loop) post(f func()) (waiting int, ok bool) {
	l.posted.mu.Lock()
	defer l.posted.mu.Unlock()
	if l.posted.stopped {
		return 0, false
	}
	l.posted.list = append(l.posted.list, f)
	l.posted.waiting.Store(true)
	return len(l.posted.list), true
}

func (l *Loop) rouse() {
	if l.posted.asleep.CompareAndSwap(true, false) {
		l.poll.wake()
	}
}

// AtEnd runs f at the end of the current turn, when no callback is on the
// stack; objects are freed there.
func (l *Loop) AtEnd(f func()) { l.ending = append(l.ending, f) }

// Stop makes Run return at the end of the turn. What is open is closed.
func (l *Loop) Stop() { l.closed = true }

// OnStop runs f on the loop when it has stopped and closed its connections.
func (l *Loop) OnStop(f func()) { l.onStop = append(l.onStop, f) }

// Run runs the loop until Stop. It closes every connection and frees the loop.
func (l *Loop) Run() {
	for !l.closed {
		l.turn()
	}
	l.shut()
}

// turn waits for events and handles one batch of them.
func (l *Loop) turn() {
	most := l.untilNext()
	if most > 0 {
		l.posted.asleep.Store(true)
		if l.posted.waiting.Load() {
			most = 0 // what came in between does not wake
		}
	}
	l.poll.wait(most)
	l.wheel.advance(l.now)
	l.runPosted()
	l.finish()
}

// woke is to be called when a wait is over: it reads the clock and runs what was
// posted, so that events find it done.
func (l *Loop) woke() {
	l.tick()
	l.posted.asleep.Store(false)
	l.runPosted()
}

// finish sends what the turn produced and runs what waited for its end. Both
// may bring more of either.
func (l *Loop) finish() {
	for len(l.dirty) > 0 || len(l.ending) > 0 {
		l.sendDirty()
		n := len(l.ending) // what these bring comes after what they let be sent
		for i := range n {
			l.ending[i]()
		}
		l.ending = slices.Delete(l.ending, 0, n)
	}
}

func (l *Loop) runPosted() {
	if !l.posted.waiting.Load() {
		return
	}
	l.posted.mu.Lock()
	l.running, l.posted.list = l.posted.list, l.running[:0]
	l.posted.waiting.Store(false)
	l.posted.mu.Unlock()
	for i, f := range l.running {
		l.running[i] = nil
		f()
	}
}

func (l *Loop) untilNext() time.Duration {
	if l.posted.waiting.Load() || len(l.dirty) > 0 {
		return 0
	}
	if l.wheel.count == 0 {
		return l.idle
	}
	return min(l.wheel.next(l.now), l.idle)
}

// shut ends the loop: posted work that came in time runs, everything is closed.
func (l *Loop) shut() {
	l.posted.mu.Lock()
	l.posted.stopped = true
	l.posted.mu.Unlock()
	l.runPosted()
	l.finish()
	l.poll.closeAll()
	l.finish()
	for _, f := range l.onStop {
		f()
	}
	l.poll.free()
}

// borrow gives an empty buffer to write into.
func (l *Loop) borrow() []byte {
	if n := len(l.bufs); n > 0 {
		b := l.bufs[n-1]
		l.bufs[n-1] = nil
		l.bufs = l.bufs[:n-1]
		l.kept -= cap(b)
		l.least = min(l.least, n-1)
		return b
	}
	return make([]byte, 0, 4<<10)
}

// giveBack takes a buffer that is not used any more.
func (l *Loop) giveBack(b []byte) {
	const keep, most = 16 << 20, 256
	if cap(b) > 0 && l.kept+cap(b) <= keep && len(l.bufs) < most {
		l.kept += cap(b)
		l.bufs = append(l.bufs, b[:0])
	}
}

// Trim gives up the buffers that nothing has needed since the last Trim. To be
// called now and then.
func (l *Loop) Trim() {
	for _, b := range l.bufs[:l.least] {
		l.kept -= cap(b)
	}
	l.bufs = slices.Delete(l.bufs, 0, l.least)
	l.least = len(l.bufs)
}

// Accept takes a connection that was accepted, and where it is from. It must set a
// handler.
type Accept func(c *Conn, from filter.Address)

// poller is what brings a loop its events.
type poller interface {
	// wait waits at most so long for events, calls woke and handles them.
	wait(most time.Duration)
	// wake ends a wait; from any goroutine.
	wake()
	closeAll()
	free()
}
