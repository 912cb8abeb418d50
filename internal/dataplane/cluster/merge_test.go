package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// merged is an EDS cluster whose updates are counted, and in which sets of hosts that
// came in force are counted too.
type merged struct {
	t       *testing.T
	c       *Cluster
	reg     *stats.Registry
	updates UpdateStats
	told    []Update
	apart   bool // changes by EDS are not merged
}

func mergedEDS(t *testing.T, fields string) *merged {
	t.Helper()
	m := &merged{t: t}
	m.c, m.reg = build(t, strings.Replace(edsClusterJSON, `{"name"`, `{`+fields+`"name"`, 1), func(o *Options) {
		o.Updates, o.MergeBatches = &m.updates, func() bool { return !m.apart }
		o.OnUpdate = func(u Update) { m.told = append(m.told, u) }
	})
	stats.Fill(m.reg.Scope(""), "", &m.updates)
	return m
}

// ep is an endpoint of a priority with a weight; group are those of a priority.
type ep struct {
	addr   string
	weight int
}

func (m *merged) assign(priorities ...[]ep) {
	m.t.Helper()
	m.located("", priorities...)
}

// located is assign with more fields of the localities.
func (m *merged) located(fields string, priorities ...[]ep) {
	m.t.Helper()
	var groups []string
	for p, list := range priorities {
		var eps []string
		for _, e := range list {
			eps = append(eps, endpointAt(e.addr, "")[:len(endpointAt(e.addr, ""))-1]+fmt.Sprintf(`, "load_balancing_weight": %d}`, e.weight))
		}
		groups = append(groups, fmt.Sprintf(`{"priority": %d, "lb_endpoints": [%s]%s}`, p, strings.Join(eps, ","), fields))
	}
	if err := m.c.Assign(assignmentOf(m.t, `{"cluster_name": "c", "endpoints": [`+strings.Join(groups, ",")+`]}`)); err != nil {
		m.t.Fatal(err)
	}
}

// counts wants the counters: at once, merged, cancelled and out of the window.
func (m *merged) counts(what string, want ...uint64) {
	m.t.Helper()
	s := snapshot(m.t, m.reg)
	got := fmt.Sprint([]uint64{
		s.Counter(m.updates.ClusterUpdated), s.Counter(m.updates.UpdatedViaMerge), s.Counter(m.updates.MergeCancelled), s.Counter(m.updates.OutOfMergeWindow),
	})
	if got != fmt.Sprint(want) {
		m.t.Errorf("%s: %s, want %d", what, got, want)
	}
}

// sleep passes time, and lets what is due then run.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func bubble(t *testing.T, fields string, test func(m *merged)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { //nolint:thelper // the test itself
		test(mergedEDS(t, fields))
	})
}

// Changes by EDS are in force at once unless that is asked for, and take along what
// health checks let wait; the window is theirs alone.
// Partly proves CM-16: what is merged by default is what Envoy 1.40 merges.
func TestBatchesAreNotMerged(t *testing.T) {
	bubble(t, "", func(m *merged) {
		m.apart = true
		weight := func() int { return int(m.c.Hosts().Hosts()[0].Weight()) }
		sets := map[*HostSet]bool{}
		for w := 1; w <= 5; w++ {
			m.assign([]ep{{"1.0.0.1", w}})
			sets[m.c.Hosts()] = true
			if weight() != w {
				m.t.Errorf("weight %d, want %d", weight(), w)
			}
		}
		if len(sets) != 5 {
			m.t.Errorf("%d sets of hosts for 5 changes", len(sets))
		}
		m.counts("by EDS", 4, 0, 0, 0)
		for range 2 {
			m.c.stale.Store(true)
			m.c.Rebalance()
		}
		m.counts("by health", 5, 0, 0, 1)
		m.assign([]ep{{"1.0.0.1", 6}})
		m.counts("by EDS while health waits", 6, 0, 1, 1)
		sleep(time.Hour)
		m.counts("an hour later", 6, 0, 1, 1)
	})
}

const hashes = `"lb_policy": "MAGLEV", `

// A hundred changes of a weight make two sets of hosts and two tables: one with the
// first, and one with the last when the window ends. Then all is quiet.
// Partly proves CM-16: update_merge_window of 1 s, by default.
func TestWeightsAreMerged(t *testing.T) {
	bubble(t, hashes, func(m *merged) {
		m.assign([]ep{{"1.0.0.1", 1}, {"1.0.0.2", 1}})
		m.counts("the first hosts", 0, 0, 0, 0)
		sets := map[*HostSet]bool{m.c.Hosts(): true}
		tables := map[any]bool{m.c.Hosts().Hashed[0].table: true}
		for i := range 100 {
			m.assign([]ep{{"1.0.0.1", 1}, {"1.0.0.2", 2 + i}})
			sets[m.c.Hosts()], tables[m.c.Hosts().Hashed[0].table] = true, true
			sleep(9 * time.Millisecond)
		}
		m.counts("a hundred weights", 1, 0, 0, 1)
		if w := m.c.Hosts().Hashed[0].members[1].Weight; len(sets) != 2 || w != 2.0/3 {
			m.t.Errorf("%d sets, weight %v before the window ends", len(sets), w)
		}
		sleep(time.Second)
		sets[m.c.Hosts()], tables[m.c.Hosts().Hashed[0].table] = true, true
		if w := m.c.Hosts().Hashed[0].members[1].Weight; len(sets) != 3 || len(tables) != 3 || w != 101.0/102 {
			m.t.Errorf("%d sets, %d tables, weight %v when the window has ended", len(sets), len(tables), w)
		}
		m.counts("the end of the window", 1, 1, 0, 1)
		if len(m.told) != 101 {
			m.t.Errorf("told %d times", len(m.told))
		}
		sleep(time.Hour)
		m.counts("an hour later", 1, 1, 0, 1)
	})
}

// The window begins with what comes in force, counts whole milliseconds, and is over
// for the next change even if one waits.
// Partly proves CM-16.
func TestMergeWindow(t *testing.T) {
	bubble(t, `"common_lb_config": {"update_merge_window": "2.0005s"}, `, func(m *merged) {
		weight := 1
		change := func() { weight++; m.assign([]ep{{"1.0.0.1", weight}}) }
		change()
		change()
		m.counts("the first", 1, 0, 0, 1)
		sleep(2000*time.Millisecond + 999*time.Microsecond)
		change()
		m.counts("in the window's last millisecond", 1, 0, 0, 1)
		sleep(time.Microsecond)
		change()
		m.counts("after it", 2, 0, 1, 2)
		sleep(500 * time.Millisecond)
		change()
		change()
		m.counts("in the next", 2, 0, 1, 2)
		sleep(2 * time.Second)
		m.counts("a window after that", 2, 1, 1, 2)
		change()
		m.counts("in the window of the merged one", 2, 1, 1, 2)
		sleep(2 * time.Second)
		m.counts("at its end", 2, 2, 1, 2)
		sleep(2001 * time.Millisecond)
		change()
		m.counts("after a quiet one", 3, 2, 1, 3)
	})
}

// Hosts that come or go never wait, and take along what waits in their priority; what
// waits in another goes on waiting. A host that moves to another priority or locality
// is one of them.
// Partly proves CM-16: additions and removals.
func TestHostsNeverWait(t *testing.T) {
	a, b, x := ep{"1.0.0.1", 1}, ep{"1.0.0.2", 1}, ep{"2.0.0.1", 1}
	heavy := func(e ep) ep { e.weight = 9; return e }
	for _, tt := range []struct {
		name   string
		change func(m *merged)
		first  int      // hosts of the first priority after it
		counts []uint64 // before the window ends
		waits  bool     // the other priority does
	}{
		{"an addition", func(m *merged) { m.assign([]ep{heavy(a), b, {"1.0.0.3", 1}}, []ep{heavy(x)}) }, 3, []uint64{3, 0, 1, 2}, true},
		{"a removal", func(m *merged) { m.assign([]ep{b}, []ep{heavy(x)}) }, 1, []uint64{3, 0, 1, 2}, true},
		{"another priority", func(m *merged) { m.assign([]ep{heavy(a)}, []ep{heavy(x), b}) }, 1, []uint64{4, 0, 2, 2}, false},
		{"another locality", func(m *merged) { m.located(`, "locality": {"zone": "z"}`, []ep{heavy(a), b}, []ep{heavy(x)}) }, 2, []uint64{4, 0, 2, 2}, false},
		{"everything", func(m *merged) { m.assign() }, 0, []uint64{4, 0, 2, 2}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, hashes, func(m *merged) {
				m.assign([]ep{a, b}, []ep{x})
				m.assign([]ep{{a.addr, 2}, b}, []ep{{x.addr, 2}})
				m.counts("a first change", 2, 0, 0, 2)
				m.assign([]ep{heavy(a), b}, []ep{heavy(x)})
				set := m.c.Hosts()
				tt.change(m)
				m.counts("the change", tt.counts...)
				if now := m.c.Hosts(); now == set || len(now.Priorities[0].Hosts) != tt.first {
					m.t.Errorf("%v are in force", now.Priorities)
				}
				n := len(m.told)
				sleep(time.Second)
				if tt.waits {
					tt.counts[1]++
				}
				m.counts("the end of the window", tt.counts...)
				if len(m.told) != n {
					m.t.Error("the end of a window is told as another update")
				}
				if last := m.c.waiting.Load(); last != nil {
					m.t.Errorf("%v wait for ever", *last)
				}
			})
		})
	}
}

// What waits is what is known: statistics and /clusters have it, and the next change is
// one of it. What is taken back before the window ends is as it was.
// Partly proves CM-16.
func TestWaitingIsKnown(t *testing.T) {
	bubble(t, "", func(m *merged) {
		m.assign([]ep{{"1.0.0.1", 1}, {"1.0.0.2", 1}})
		m.assign([]ep{{"1.0.0.1", 2}, {"1.0.0.2", 1}})
		t := m.t
		sick := strings.Replace(endpointAt("1.0.0.2", ""), `{"endpoint"`, `{"health_status": "UNHEALTHY", "endpoint"`, 1)
		assign(t, m.c, endpointAt("1.0.0.1", ""), sick)
		if n := len(m.c.Hosts().Priorities[0].Healthy); n != 2 {
			t.Errorf("%d healthy hosts in force", n)
		}
		m.c.PublishGauges()
		v, err := m.c.View(t.Context())
		if n := snapshot(t, m.reg).Gauge(m.c.Stats.MembershipHealthy); err != nil || n != 1 || v.Hosts[1].HealthFlagsText != "/failed_eds_health" {
			t.Errorf("%d healthy hosts are known, %+v, %v", n, v.Hosts, err)
		}
		assign(t, m.c, endpointAt("1.0.0.1", ""), endpointAt("1.0.0.2", ""))
		m.c.PublishGauges()
		if n := snapshot(t, m.reg).Gauge(m.c.Stats.MembershipHealthy); n != 2 {
			t.Errorf("%d healthy hosts are known", n)
		}
		sleep(time.Second)
		m.counts("taken back", 1, 1, 0, 1)
		if n := len(m.c.Hosts().Priorities[0].Healthy); n != 2 {
			t.Errorf("%d healthy hosts in force at the end", n)
		}
	})
}

// What health checks find is merged too, for all priorities. Those who drain the hosts
// that failed hear of it at once, and a host that goes with its failure goes at once.
// Partly proves CM-16: health.
func TestHealthIsMerged(t *testing.T) {
	bubble(t, checks+`, `, func(m *merged) {
		m.assign([]ep{{"1.0.0.1", 1}, {"1.0.0.2", 1}}, []ep{{"1.0.0.3", 1}})
		hosts := m.c.Hosts().Hosts()
		for _, h := range hosts {
			check(m.c, h, 0)
		}
		m.counts("before the cluster serves", 0, 0, 0, 0)
		check(m.c, hosts[0], FailedActive)
		m.counts("a failure", 2, 0, 0, 2)
		check(m.c, hosts[1], FailedActive)
		p := &m.c.Hosts().Priorities[0]
		if last := m.told[len(m.told)-1]; len(p.Healthy) != 1 || len(last.Failed) != 1 || last.Failed[0] != hosts[1] {
			m.t.Errorf("%d healthy, told of %v", len(p.Healthy), last.Failed)
		}
		sleep(time.Second)
		m.counts("both", 2, 2, 0, 2)
		if n := len(m.c.Hosts().Priorities[0].Healthy); n != 0 {
			m.t.Errorf("%d healthy hosts when the window has ended", n)
		}
		m.assign([]ep{{"1.0.0.1", 1}, {"1.0.0.2", 1}}) // the third stays for now
		check(m.c, hosts[0], 0)
		m.counts("while one is gone", 2, 2, 0, 2)
		check(m.c, hosts[2], FailedActive)
		m.counts("its failure", 3, 2, 1, 2)
		if len(m.c.Hosts().Hosts()) != 2 || len(m.c.Hosts().Priorities[0].Healthy) != 0 {
			m.t.Error("a host that is gone and failing stays, or what waits besides does not")
		}
		sleep(time.Second)
		m.counts("the rest", 3, 3, 1, 2)
		if n := len(m.c.Hosts().Priorities[0].Healthy); n != 1 {
			m.t.Errorf("%d healthy hosts at the end", n)
		}
	})
}

// Partly proves CM-16: a window of 0, or of less than a millisecond, merges nothing.
func TestNothingIsMerged(t *testing.T) {
	for _, window := range []string{"0s", "0.0009s"} {
		bubble(t, `"common_lb_config": {"update_merge_window": "`+window+`"}, `, func(m *merged) {
			for i := range 10 {
				m.assign([]ep{{"1.0.0.1", 1 + i}})
				if w := m.c.Hosts(); m.c.recent != nil || i > 0 && w.Priorities[0].Hosts[0].Weight() != uint32(1+i) {
					m.t.Errorf("%s: %v", window, w.Priorities)
				}
			}
			m.counts(window, 9, 0, 0, 0)
		})
	}
}

// drop_overloads never waits, and what waits does not come with it.
// Partly proves CM-16.
func TestDropDoesNotWait(t *testing.T) {
	bubble(t, hashes, func(m *merged) {
		t := m.t
		with := func(weight int, policy string) {
			if err := m.c.Assign(assignmentOf(t, `{"cluster_name": "c", `+policy+` "endpoints": [{"load_balancing_weight": `+fmt.Sprint(weight)+`, "lb_endpoints": [`+endpointAt("1.0.0.1", "")+`]}]}`)); err != nil {
				t.Fatal(err)
			}
		}
		with(1, "")
		with(2, "")
		with(3, "")
		with(3, `"policy": {"drop_overloads": [{"category": "x", "drop_percentage": {"numerator": 100}}]},`)
		if w := m.c.Hosts().Priorities[0].Localities[0].Weight; m.c.Drop().Decide(0) != DropUnconditional || w != 2 {
			t.Errorf("drops %v, weight %d", m.c.Drop(), w)
		}
		sleep(time.Second)
		if w := m.c.Hosts().Priorities[0].Localities[0].Weight; m.c.Drop().Decide(0) != DropUnconditional || w != 3 {
			t.Errorf("drops %v, weight %d at the end", m.c.Drop(), w)
		}
		m.counts("the weight of a locality", 1, 1, 0, 1)
	})
}

// A cluster that ends with updates that wait leaves nothing behind, and a late change
// of it begins nothing. One at rest owns no timer.
// Partly proves CM-16.
func TestHaltedWhileWaiting(t *testing.T) {
	bubble(t, "", func(m *merged) {
		m.assign([]ep{{"1.0.0.1", 1}})
		m.assign([]ep{{"1.0.0.1", 2}})
		if m.c.recent[0].wait != nil {
			m.t.Error("a lone change waits")
		}
		m.assign([]ep{{"1.0.0.1", 3}})
		if m.c.recent[0].wait == nil {
			m.t.Fatal("nothing waits")
		}
		timer, set := m.c.recent[0].wait.timer, m.c.Hosts()
		m.c.Halt()
		if timer.Stop() {
			m.t.Error("the timer runs on")
		}
		sleep(time.Minute)
		if m.c.Hosts() != set {
			m.t.Error("what waited came in force")
		}
		m.assign([]ep{{"1.0.0.1", 4}})
		if m.c.Hosts() == set || m.c.recent[0].wait != nil {
			m.t.Error("a late change waits")
		}
		m.counts("a late change", 1, 0, 0, 1)
	})
}

// Whatever comes, in whatever order: the hosts in force are always those that are
// known, and in the end all else is as well.
// Partly proves CM-16.
func TestMergingConverges(t *testing.T) {
	bubble(t, "", func(m *merged) {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // to be repeated
		for range 2000 {
			priorities := make([][]ep, 1+r.IntN(3))
			for i := range 4 {
				if p := r.IntN(len(priorities)); r.IntN(4) > 0 {
					priorities[p] = append(priorities[p], ep{fmt.Sprintf("1.0.0.%d", i), 1 + r.IntN(3)})
				}
			}
			m.located(fmt.Sprintf(`, "load_balancing_weight": %d`, 1+r.IntN(2)), priorities...)
			for range r.IntN(3) {
				m.located(fmt.Sprintf(`, "load_balancing_weight": %d`, 1+r.IntN(2)), priorities...)
			}
			agree(m.t, m.c.Hosts().Priorities, m.c.latest(), false)
			sleep(time.Duration(r.IntN(600)) * time.Millisecond)
		}
		sleep(3 * time.Second)
		agree(m.t, m.c.Hosts().Priorities, m.c.latest(), true)
		if m.c.waiting.Load() != nil {
			m.t.Error("something waits for ever")
		}
		agree(m.t, m.c.Hosts().Priorities, buildPriorities(hostsIn(m.c.latest()), m.c.assignment.weights), true)
	})
}

// agree compares the hosts of priorities, and if all is to be the same the weights of
// their localities.
func agree(t *testing.T, force, known []Priority, all bool) {
	t.Helper()
	text := func(of []Priority) string {
		var b strings.Builder
		for i := range of {
			if len(of[i].Hosts) == 0 && !all {
				continue // it may be known no more
			}
			fmt.Fprint(&b, i, of[i].Hosts)
			for _, l := range of[i].Localities {
				if all {
					fmt.Fprint(&b, l.Locality, l.Weight, l.Healthy)
				}
			}
		}
		return b.String()
	}
	if text(force) != text(known) {
		t.Fatalf("in force: %s\nknown: %s", text(force), text(known))
	}
}
