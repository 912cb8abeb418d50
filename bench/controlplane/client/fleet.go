package client

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Plan is what a fleet of streams is to do.
type Plan struct {
	// Address is the server's, numeric and IPv4.
	Address string
	// Streams is how many streams there are, each on its own connection.
	Streams int
	// Clusters is how many clusters the server holds; every stream asks for
	// all of them by wildcard and, with EDS, for each assignment by name.
	Clusters int
	EDS      bool
	// Delta chooses the incremental variant over state of the world.
	Delta bool
	// Stuck is how many of the streams never take what they are sent, in turn
	// by not reading and by not opening their window.
	Stuck int
	// Window is the flow-control window of each stream in bytes.
	Window int
	// Dials is how many connections may be in the making at a time.
	Dials int
	// PerSource is how many connections share one loopback source address.
	PerSource int
	// Hold keeps the versions that Reconnect needs.
	Hold bool
}

// Fleet is many streams served by one loop. Its methods may be called by one
// goroutine.
type Fleet struct {
	plan     Plan
	server   unix.SockaddrInet4
	requests requests

	epoll, wakeFD int
	commands      chan func()
	stop          chan struct{}
	stopped       chan struct{}
	failed        chan struct{}
	failure       error // written before failed is closed

	// What follows belongs to the loop.
	byFD     map[int32]*conn
	dialling int
	next     int // next connection to dial
	resuming bool
	closing  bool // connections may close
	touched  []*conn
	in, out  []byte
	now      int64
	count    Counts
	ready    *Wave
	wave     *Wave
	versions *versionTable
}

const (
	inBuffer  = 256 << 10
	outBuffer = 256 << 10
)

// ErrPlan is wrapped by the errors about a plan that cannot be carried out.
var ErrPlan = errors.New("impossible plan")

// New prepares a fleet and starts its loop; Close ends both.
func New(p Plan) (*Fleet, error) {
	a, err := netip.ParseAddrPort(p.Address)
	if err != nil || !a.Addr().Is4() {
		return nil, fmt.Errorf("%w: address %q: want a numeric IPv4 address and port", ErrPlan, p.Address)
	}
	if p.Streams <= p.Stuck || p.Clusters <= 0 || p.Window < initialWindow || p.Window > maxWindow || p.Dials <= 0 || p.PerSource <= 0 {
		return nil, fmt.Errorf("%w: %+v", ErrPlan, p)
	}
	f := &Fleet{
		plan: p, server: unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()},
		requests: newRequests(p.Delta, p.Clusters, p.Window, p.Address),
		commands: make(chan func(), 1), stop: make(chan struct{}), stopped: make(chan struct{}), failed: make(chan struct{}),
		byFD: map[int32]*conn{}, in: make([]byte, inBuffer), out: make([]byte, 0, outBuffer),
		next: p.Streams,
	}
	if p.Hold {
		f.versions = newVersionTable(p.Clusters)
	}
	if err := f.open(); err != nil {
		return nil, err
	}
	go f.run()
	return f, nil
}

// Close closes every connection and ends the loop.
func (f *Fleet) Close() {
	close(f.stop)
	f.wake()
	<-f.stopped
}

// Connect opens all streams and returns the wave of their first states.
func (f *Fleet) Connect() *Wave { return f.connect(false) }

// Reconnect opens all streams again after the server has gone, each saying
// that it holds everything, and returns the wave of their first answers.
func (f *Fleet) Reconnect() *Wave { return f.connect(true) }

func (f *Fleet) connect(resuming bool) *Wave {
	w := f.newWave()
	f.do(func() {
		f.dropAll()
		if resuming {
			f.versions.freeze()
		}
		f.ready, f.resuming, f.closing = w, resuming, false
		f.next = 0 // the end of this round dials
	})
	return w
}

// Expect returns the wave of a change that is about to be made. Only one wave
// is watched at a time. The versions that Reconnect will name are those from
// before the first change.
func (f *Fleet) Expect(k resources.Kind, index, gen int) *Wave {
	w := f.newWave()
	w.kind, w.index, w.gen = k, index, gen
	f.do(func() {
		f.wave = w
		f.versions.freeze()
	})
	return w
}

// AllowClose says that the server may close the connections from now on, until
// the next Connect or Reconnect.
func (f *Fleet) AllowClose() { f.do(func() { f.closing = true }) }

// Counts returns what has been received so far.
func (f *Fleet) Counts() (c Counts) {
	f.do(func() { c = f.count })
	return c
}

// Err is why the loop has stopped before Close; nil if it has not.
func (f *Fleet) Err() error {
	select {
	case <-f.failed:
		return f.failure
	default:
		return nil
	}
}

func (f *Fleet) newWave() *Wave {
	n := f.plan.Streams
	return &Wave{
		seen: make([]bool, n), want: n - f.plan.Stuck, Arrivals: make([]int64, 0, n),
		done: make(chan struct{}), fail: f.failed, err: f.Err,
	}
}

// do runs a function on the loop and waits for it; a loop that has failed runs
// nothing.
func (f *Fleet) do(fn func()) {
	ran := make(chan struct{})
	select {
	case f.commands <- func() { fn(); close(ran) }:
	case <-f.failed:
		return
	}
	f.wake()
	select {
	case <-ran:
	case <-f.failed:
	}
}

func (f *Fleet) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(f.stopped)
	defer f.release()
	if err := f.poll(); err != nil {
		f.failure = err
		close(f.failed)
	}
}

// RaiseFileLimit lets the process open as many files as it may, and fails if
// that is less than it needs.
func RaiseFileLimit(need int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("reading the limit of open files: %w", err)
	}
	l.Cur = l.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("raising the limit of open files to %d: %w", l.Max, err)
	}
	if l.Cur < uint64(need) {
		return fmt.Errorf("%w: %d files are needed, the hard limit is %d (ulimit -Hn)", ErrPlan, need, l.Max)
	}
	return nil
}
