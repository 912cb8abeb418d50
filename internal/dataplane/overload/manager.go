package overload

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// Manager is the overload manager of a proxy.
type Manager struct {
	env       *Env
	interval  time.Duration
	resources []*resource
	rules     rules
	// Levels are what workers look at.
	Levels *Levels

	least    [timers]*least // of timers that are made shorter
	scaledBy [timers]*action
	factors  [timers]float64 // as they were told last

	shrinkEach time.Duration
	unfreed    uint64 // bytes that shrink_heap leaves

	delays  stats.Histogram
	shrinks stats.Counter
	gauges  []actionGauges // of the rules' actions, in order
}

// resource is a monitor with what is counted of it.
type resource struct {
	name    string
	monitor monitor
	asked   bool // and has not answered

	pressure        stats.Gauge
	failed, skipped stats.Counter
	refused         uint64 // of connections, as it was counted last
}

type actionGauges struct{ active, percent stats.Gauge }

// register makes the statistics overload.* (OV-05).
func (m *Manager) register() {
	s := m.env.Stats.Scope("")
	m.delays = s.Histogram("overload.refresh_interval_delay", stats.Milliseconds)
	for _, r := range m.resources {
		at := "overload." + r.name
		r.pressure, r.failed = s.Gauge(at+".pressure"), s.Counter(at+".failed_updates")
		m.env.Stats.Main().GaugeSet(r.pressure, 0)
		if _, ok := r.monitor.(limit); !ok {
			r.skipped = s.Counter(at + ".skipped_updates")
		}
	}
	for _, a := range m.rules.actions {
		at := "overload." + a.name
		g := actionGauges{s.Gauge(at + ".active"), s.Gauge(at + ".scale_percent")}
		m.gauges = append(m.gauges, g)
		m.env.Stats.Main().GaugeSet(g.active, 0)
		m.env.Stats.Main().GaugeSet(g.percent, 0)
		if a.kind == shrinkHeap {
			m.shrinks = s.Counter(at + ".shrink_count")
		}
	}
}

// Timeouts are a worker's; nil if none are made shorter.
func (m *Manager) Timeouts() *Timeouts {
	for _, l := range m.least {
		if l != nil {
			return &Timeouts{least: m.least}
		}
	}
	return nil
}

// Factors are the levels of the actions that make timers shorter, by timer.
type Factors = [timers]float64

// Hooks are what the manager tells the proxy. They are called by Run, and must not
// wait.
type Hooks struct {
	// StopConnections makes all listeners stop accepting, or go on
	// (stop_accepting_connections). It is called when that changes.
	StopConnections func(stop bool)
	// Timeouts puts levels in force in [Timeouts.Change], on each worker. It is called
	// when one changes.
	Timeouts func(Factors)
}

// answer is what a monitor said.
type answer struct {
	r        *resource
	pressure float64
	err      error
}

// Run asks the monitors at each interval and takes the actions, until ctx ends.
func (m *Manager) Run(ctx context.Context, h Hooks) error {
	if c := m.collect(); c != nil {
		defer c.end()
	}
	answers := make(chan answer, len(m.resources))
	tick := time.NewTicker(m.interval)
	defer tick.Stop()
	shrink := time.NewTicker(m.shrinkEach)
	defer shrink.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			m.await(answers)
			return nil
		case now := <-tick.C:
			m.ask(answers)
			m.env.Stats.Main().Record(m.delays, uint64(max(now.Sub(last), 0)/time.Millisecond))
			last = now
		case a := <-answers:
			m.answered(a)
			m.apply(h)
		case <-shrink.C:
			m.shrink()
		}
	}
}

// collect hands the collector to the monitors of the heap; nil if there are none.
func (m *Manager) collect() *goCollector {
	var c *goCollector
	for _, r := range m.resources {
		if h, ok := r.monitor.(*heap); ok {
			if c == nil {
				c = newGoCollector()
			}
			h.gc = c
		}
	}
	return c
}

// ask asks each monitor that has answered, and does not wait for it.
func (m *Manager) ask(answers chan<- answer) {
	for _, r := range m.resources {
		if r.asked {
			m.env.Stats.Main().Inc(r.skipped)
			continue
		}
		r.asked = true
		go func() {
			p, err := r.monitor.pressure()
			answers <- answer{r, p, err}
		}()
	}
}

// lastAnswers is how long the end waits for a monitor.
const lastAnswers = time.Second

// await waits for what was asked. Who reads a file that nothing comes from is not
// waited for long.
func (m *Manager) await(answers <-chan answer) {
	t := time.NewTimer(lastAnswers)
	defer t.Stop()
	for _, r := range m.resources {
		if !r.asked {
			continue
		}
		select {
		case <-answers:
		case <-t.C:
			return
		}
	}
}

// answered takes a monitor's answer.
func (m *Manager) answered(a answer) {
	r, main := a.r, m.env.Stats.Main()
	r.asked = false
	if c, ok := r.monitor.(limit); ok {
		n := c.refused.Load()
		main.Add(r.failed, n-r.refused)
		r.refused = n
	}
	if a.err != nil {
		main.Inc(r.failed)
		m.env.Logger.Info("a resource monitor failed; its last pressure stays", "monitor", r.name, "error", a.err)
		return
	}
	main.GaugeSet(r.pressure, int64(min(a.pressure, 1e12)*100))
	m.rules.pressure(r.name, a.pressure)
}

// apply takes the actions whose levels have changed.
func (m *Manager) apply(h Hooks) {
	main, timeouts := m.env.Stats.Main(), false
	for i, a := range m.rules.actions {
		if !a.changed {
			continue
		}
		a.changed = false
		full := a.level >= 1
		if full != a.full {
			a.full = full
			m.env.Logger.Warn("an overload action has changed", "action", a.name, "saturated", full)
			active := int64(0)
			if full {
				active = 1
			}
			main.GaugeSet(m.gauges[i].active, active)
			if a.kind == stopConnections {
				h.StopConnections(full)
			}
		}
		main.GaugeSet(m.gauges[i].percent, int64(float32(a.level)*100)) // in Envoy's precision
		switch a.kind {
		case stopRequests:
			m.Levels.StopRequests.Set(a.level)
		case disableKeepalive:
			m.Levels.DisableKeepalive.Set(a.level)
		case rejectConnections:
			m.Levels.RejectConnections.Set(a.level)
		case reduceTimeouts:
			timeouts = true
		case stopConnections: // when it is saturated
		case shrinkHeap: // in its own time
		}
	}
	if timeouts {
		for k, a := range m.scaledBy {
			if a != nil {
				m.factors[k] = a.level
			}
		}
		h.Timeouts(m.factors)
	}
}

// shrink gives memory back to the system while that action is saturated, if there
// is enough of it.
func (m *Manager) shrink() {
	for _, a := range m.rules.actions {
		if a.kind != shrinkHeap || a.level < 1 {
			continue
		}
		m.env.Stats.Main().Inc(m.shrinks)
		read, release := m.env.Memory, m.env.Release
		if read == nil {
			read = ReadMemory
		}
		if release == nil {
			release = debug.FreeOSMemory
		}
		if mem := read(); mem.Free+mem.Objects-min(mem.Live, mem.Objects) > m.unfreed {
			release()
		}
	}
}
