package healthcheck

// Verdict is what one check found.
type Verdict uint8

// The verdicts. Passed and Degraded are successes.
const (
	Passed Verdict = iota
	// Degraded is a success of a host that wants little traffic (x-envoy-degraded).
	Degraded
	// Failed is an answer that says no: the host is out at once.
	Failed
	// Retriable is such an answer that counts toward unhealthy_threshold only.
	Retriable
	// NetworkFailed is no answer; it counts toward unhealthy_threshold.
	NetworkFailed
	// TimedOut is no answer within the timeout; it counts as well.
	TimedOut
	// Passive is a response to a request that said that the host fails.
	Passive
)

// Passes reports whether the verdict is a success.
func (v Verdict) Passes() bool { return v <= Degraded }

// Result is the outcome of one check.
type Result struct {
	Verdict Verdict
	// Excluded says that the host asked to be left out altogether
	// (x-envoy-immediate-health-check-fail).
	Excluded bool
	// Status is the code of the answer over HTTP that failed; 0 for none.
	Status int
}

// Change is what a result did to the host's state.
type Change uint8

// The changes. Pending is a result that is one of several that a change needs.
const (
	Unchanged Change = iota
	Pending
	Changed
)

// Step is what a result did.
type Step struct {
	Change Change
	// First tells that it was the first result of this check.
	First bool
	// Added and Ejected tell that the host has begun to pass or to fail, Demoted
	// and Promoted that it is a degraded one from now on, or is no longer.
	Added, Ejected, Demoted, Promoted bool
}

// Machine is what one check knows of one host. It is pure: results in, steps out
// (HK-02). The zero value is not ready; see NewMachine.
type Machine struct {
	unhealthyAfter, healthyAfter uint32

	failed, timedOut, degraded, excluded, pending, checked bool

	passes, failures uint32
}

// NewMachine begins with a host that has failed until its first check. pending leaves
// it out of the number of hosts until then (ignore_new_hosts_until_first_hc).
func NewMachine(unhealthyThreshold, healthyThreshold uint32, pending bool) Machine {
	return Machine{
		unhealthyAfter: max(unhealthyThreshold, 1), healthyAfter: max(healthyThreshold, 1),
		failed: true, pending: pending,
	}
}

// Take adds a result.
func (m *Machine) Take(r Result) Step {
	s := Step{First: !m.checked}
	if r.Verdict.Passes() {
		m.pass(r.Verdict == Degraded, &s)
	} else {
		m.fail(r, &s)
	}
	m.checked = true
	return s
}

// pass takes a success: the first of all makes the host healthy at once, later ones
// count.
func (m *Machine) pass(degraded bool, s *Step) {
	m.failures = 0
	if m.failed {
		m.passes++
		s.Change = Pending
		if s.First || m.passes >= m.healthyAfter {
			m.failed, m.timedOut, m.excluded = false, false, false
			s.Change, s.Added = Changed, true
		}
	}
	m.settle(s)
	if degraded == m.degraded {
		return
	}
	m.degraded = degraded
	s.Demoted, s.Promoted = degraded, !degraded
	if s.Change == Unchanged {
		s.Change = Changed
	}
}

func (m *Machine) fail(r Result, s *Step) {
	m.passes = 0
	if r.Excluded {
		m.excluded = true
	}
	if !m.failed {
		m.failures++
		s.Change = Pending
		if atOnce := r.Verdict == Failed || r.Verdict == Passive; atOnce || m.failures >= m.unhealthyAfter {
			m.failed = true
			s.Change, s.Ejected = Changed, true
		}
	}
	m.timedOut = r.Verdict == TimedOut && m.failed
	m.settle(s)
}

// settle ends the time before the first result.
func (m *Machine) settle(s *Step) {
	if m.pending {
		m.pending, s.Change = false, Changed
	}
}
