package healthcheck

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Options are what the checks of a cluster need from its surroundings.
type Options struct {
	// Cluster is what is checked; Checks are how, one at least. Required.
	Cluster *cluster.Cluster
	Checks  []*Config
	// Registry is the scope of the cluster's statistics, Sink what counts. Required.
	Registry stats.Registrar
	Sink     Sink
	// Dial opens a connection for a check of a host, through the cluster's transport
	// socket, and secure tells that this encrypts. alpn is offered if check does not
	// say what is. Required; called from several goroutines at once.
	Dial func(ctx context.Context, h *cluster.Host, check *Config, alpn string) (conn net.Conn, secure bool, err error)
	// Runtime is the present runtime; nil: no key is set.
	Runtime func() cluster.Runtime
	// Events writes a line of an event to a file; nil writes none.
	Events func(path string, line []byte)
	// HTTP1 and HTTP2 are the settings of the cluster's codecs.
	HTTP1 http1.Options
	HTTP2 http2.Options
	// Random is used from several goroutines at once; nil means math/rand/v2.
	Random func() uint64
	// Logger is told what fails; nil logs nothing.
	Logger *slog.Logger
}

// Checker runs the active health checks of a cluster. Safe for concurrent use.
type Checker struct {
	o      Options
	counts []*counts // of each check
	all    *hosts    // with several checks

	passive chan *cluster.Host

	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // of Run; nil before it
	wg      sync.WaitGroup
	targets map[*cluster.Host]*target
}

// target is a host under check. What is below cancel is guarded by the checker's mu.
type target struct {
	host     *cluster.Host
	cancel   context.CancelFunc
	machines []Machine // of each check
	left     int       // checks without a result
	healthy  bool      // all checks pass
	degraded bool
	gone     bool
}

// maxPassive bounds the hosts that wait to be taken out for what they said
// themselves: those that find no place say so again.
const maxPassive = 64

// New makes the checker of a cluster. It starts nothing.
func New(o Options) *Checker {
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &Checker{o: o, targets: map[*cluster.Host]*target{}, passive: make(chan *cluster.Host, maxPassive)}
	for _, conf := range o.Checks {
		c.counts = append(c.counts, newCounts(o.Registry, conf.Name))
	}
	if len(o.Checks) > 1 {
		c.all = &hosts{}
		stats.Fill(o.Registry, prefix, c.all)
	}
	return c
}

// Run checks the hosts until ctx is done, and returns after its goroutines ended. It
// may be called once.
func (c *Checker) Run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = ctx
	for _, h := range c.o.Cluster.Hosts().Hosts() {
		c.begin(h) //nolint:contextcheck // it has ctx, as those that come later have
	}
	c.mu.Unlock()
	for done := false; !done; {
		select {
		case h := <-c.passive:
			c.failed(h)
		case <-ctx.Done():
			done = true
		}
	}
	c.mu.Lock()
	for h := range c.targets {
		c.end(h)
	}
	c.mu.Unlock()
	c.wg.Wait()
}

// Update begins to check hosts that came and stops with those that are gone. It is
// meant for cluster.Options.OnUpdate.
func (c *Checker) Update(u *cluster.Update) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		return
	}
	for _, h := range u.Removed {
		c.end(h)
	}
	for _, h := range u.Added {
		c.begin(h)
	}
}

// Fail takes out a host that said itself that it fails (HK-10). It does not block.
func (c *Checker) Fail(h *cluster.Host) {
	select {
	case c.passive <- h:
	default:
	}
}

// begin starts the checks of a host. c.mu is held.
func (c *Checker) begin(h *cluster.Host) {
	if h.Unchecked() || h.Removed() || c.targets[h] != nil {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	t := &target{host: h, cancel: cancel, left: len(c.o.Checks)}
	pending := h.Flags()&cluster.PendingActive != 0
	for _, conf := range c.o.Checks {
		t.machines = append(t.machines, NewMachine(conf.unhealthyAfter, conf.healthyAfter, pending))
	}
	c.targets[h] = t
	for i := range c.o.Checks {
		s := &session{c: c, t: t, i: i, conf: c.o.Checks[i], host: h}
		c.wg.Go(func() { s.run(ctx) })
	}
}

// end stops the checks of a host. c.mu is held.
func (c *Checker) end(h *cluster.Host) {
	t := c.targets[h]
	if t == nil {
		return
	}
	delete(c.targets, h)
	t.cancel()
	t.gone = true
	for i := range t.machines {
		c.counts[i].end(c.o.Sink, &t.machines[i])
	}
	if c.all != nil {
		move(c.o.Sink, c.all.Healthy, false, t.healthy)
		move(c.o.Sink, c.all.Degraded, false, t.degraded)
	}
}

// failed is what a host said of itself: for all its checks.
func (c *Checker) failed(h *cluster.Host) {
	c.mu.Lock()
	t := c.targets[h]
	c.mu.Unlock()
	if t == nil {
		return
	}
	for i := range t.machines {
		c.take(t, i, Result{Verdict: Passive, Excluded: true})
	}
}

// take gives a result of check i to the host's machine, and tells everybody.
func (c *Checker) take(t *target, i int, r Result) Step {
	c.mu.Lock()
	if t.gone {
		c.mu.Unlock()
		return Step{}
	}
	step := t.machines[i].Take(r)
	if step.First {
		t.left--
	}
	first := step.First && t.left == 0
	c.counts[i].take(c.o.Sink, r.Verdict, step)
	flags := t.flags()
	c.countAll(t, flags)
	changed := c.o.Cluster.SetHealth(t.host, flags)
	c.mu.Unlock()
	c.tell(t.host, c.o.Checks[i], r, step)
	if changed {
		c.o.Cluster.Rebalance()
	}
	if first {
		c.o.Cluster.FirstChecked(t.host)
	}
	return step
}

// flags is what all checks together make of a host: it is well if all say so (HK-01).
func (t *target) flags() cluster.Flags {
	var f cluster.Flags
	set := func(is bool, flag cluster.Flags) {
		if is {
			f |= flag
		}
	}
	for i := range t.machines {
		m := &t.machines[i]
		set(m.failed, cluster.FailedActive)
		set(m.degraded, cluster.DegradedActive)
		set(m.pending, cluster.PendingActive)
		set(m.excluded, cluster.ExcludedByFailure)
		set(m.timedOut, cluster.ActiveTimeout)
	}
	return f
}

// countAll keeps the gauges of a cluster with several checks. c.mu is held.
func (c *Checker) countAll(t *target, f cluster.Flags) {
	healthy, degraded := f&cluster.FailedActive == 0, f&cluster.DegradedActive != 0
	if c.all != nil {
		move(c.o.Sink, c.all.Healthy, healthy && !t.healthy, !healthy && t.healthy)
		move(c.o.Sink, c.all.Degraded, degraded && !t.degraded, !degraded && t.degraded)
	}
	t.healthy, t.degraded = healthy, degraded
}

// tell writes the events of a step.
func (c *Checker) tell(h *cluster.Host, conf *Config, r Result, s Step) {
	if c.o.Events == nil || len(conf.EventLogs) == 0 {
		return
	}
	for _, e := range conf.events(r, s) {
		b, err := line(e, conf.kind, h, c.o.Cluster.Name(), time.Now())
		if err != nil {
			c.o.Logger.Warn("a health check event is lost", slog.String("cluster", c.o.Cluster.Name()), slog.Any("error", err))
			continue
		}
		for _, path := range conf.EventLogs {
			c.o.Events(path, b)
		}
	}
}

// limits are those of the runtime.
func (c *Checker) limits() limits {
	if c.o.Runtime == nil {
		return limits{}
	}
	rt := c.o.Runtime()
	ms := func(key string) time.Duration {
		const year = 365 * 24 * time.Hour
		return time.Duration(min(rt.Integer(key, 0), uint64(year/time.Millisecond))) * time.Millisecond //nolint:gosec // bounded
	}
	return limits{least: ms("health_check.min_interval"), most: ms("health_check.max_interval")}
}

// verify reports whether the name of the service is compared this time.
func (c *Checker) verify(i int) bool {
	if c.o.Runtime != nil && c.o.Random()%100 >= c.o.Runtime().Integer("health_check.verify_cluster", 100) {
		return false
	}
	c.o.Sink.Add(c.counts[i].VerifyCluster, 1)
	return true
}
