package mem_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/source/mem"
	"github.com/xebec-proxy/xebec/xds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink keeps what it accepts.
type sink struct {
	mu      sync.Mutex
	groups  map[string]*snapshot.Snapshot
	groupOf xds.GroupFunc
	batches []snapshot.Batch
	refuse  error
}

func (s *sink) Apply(b snapshot.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	next := maps.Clone(s.groups)
	if b.Full || next == nil {
		next = map[string]*snapshot.Snapshot{}
	}
	for name, c := range b.Groups {
		old := s.groups[name]
		if old == nil {
			old = snapshot.New()
		}
		n, _, err := old.With(c)
		if err != nil {
			return err
		}
		next[name] = n
	}
	s.groups = next
	if b.GroupOf != nil {
		s.groupOf = b.GroupOf
	}
	s.batches = append(s.batches, b)
	return nil
}

// state is what the sink holds, by group, as "name=version".
func (s *sink) state() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string][]string{}
	for name, snap := range s.groups {
		out[name] = []string{}
		for _, t := range snap.TypeURLs() {
			for _, r := range snap.Set(t).All() {
				out[name] = append(out[name], r.Name()+"="+r.Version())
			}
		}
	}
	return out
}

func (s *sink) names(group string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []string
	if snap := s.groups[group]; snap != nil {
		for _, r := range snap.Set(xds.ClusterType).All() {
			l = append(l, r.Name())
		}
	}
	return l
}

func cluster(name string, seconds int) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(time.Duration(seconds) * time.Second)}
}

func key(name string) xds.Key { return xds.Key{Type: xds.ClusterType, Name: name} }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs the source until the returned function is called.
func run(t testing.TB, s *mem.Source, to *sink) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, to) }()
	return func() {
		t.Helper()
		cancel()
		must(t, <-done)
	}
}

func TestChangesAccumulateBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := mem.New(), &sink{}
		must(t, s.Set("a", cluster("one", 1), cluster("two", 1)))
		must(t, s.Set("a", cluster("one", 2)))
		must(t, s.Remove("a", key("two"), key("never")))
		must(t, s.Set("b", cluster("three", 1)))
		must(t, s.GroupBy(func(n *xds.Node) string { return n.Cluster }))
		if s.Health().Loaded {
			t.Error("it is loaded before it runs")
		}
		stop := run(t, s, to)
		defer stop()
		synctest.Wait()
		if len(to.batches) != 1 || !to.batches[0].Full {
			t.Fatalf("the batches are %+v", to.batches)
		}
		if got := fmt.Sprint(to.names("a"), to.names("b"), to.groupOf(&xds.Node{Cluster: "b"})); got != "[one] [three]b" {
			t.Errorf("the sink has %s", got)
		}
		if !s.Health().Loaded || s.Health().LastGood.IsZero() {
			t.Errorf("the health is %+v", s.Health())
		}
	})
}

func TestEveryNodeIsInTheDefaultGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := mem.New(), &sink{}
		stop := run(t, s, to)
		defer stop()
		synctest.Wait()
		if got := to.groupOf(&xds.Node{ID: "x"}); got != mem.DefaultGroup {
			t.Errorf("the node is in %q", got)
		}
	})
}

// Set returns after the sink has accepted, so what it set can be relied on.
func TestChangesAreSynchronousAndAtomic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to := mem.New(), &sink{}
		stop := run(t, s, to)
		defer stop()
		synctest.Wait()
		must(t, s.Set("a", cluster("one", 1)))
		if got := to.names("a"); !slices.Equal(got, []string{"one"}) {
			t.Fatalf("Set returned before the sink had it: %v", got)
		}
		must(t, s.Update(func(tx *mem.Tx) error {
			tx.Remove("a", key("one"))
			return errors.Join(tx.Set("a", cluster("two", 1)), tx.Replace("b", cluster("three", 1)))
		}))
		last := to.batches[len(to.batches)-1]
		if len(last.Groups) != 2 || last.Full {
			t.Errorf("the change of two groups is %+v", last)
		}
		if got := fmt.Sprint(to.names("a"), to.names("b")); got != "[two] [three]" {
			t.Errorf("the sink has %s", got)
		}
		n := len(to.batches)
		must(t, s.Set("a", cluster("two", 1))) // the same again
		must(t, s.Remove("a", key("gone")))
		if len(to.batches) != n {
			t.Error("a change of nothing went to the sink")
		}
		must(t, s.Replace("a"))
		must(t, s.RemoveGroup("b"))
		if got := to.state(); len(got) != 1 || len(got["a"]) != 0 {
			t.Errorf("the sink has %v", got)
		}
	})
}

// Proves XS-45: one name twice in one call is refused and nothing happens.
func TestRefused(t *testing.T) {
	s := mem.New()
	r, err := xds.Marshal("one", cluster("one", 1))
	must(t, err)
	boom := errors.New("boom")
	tests := map[string]struct {
		call func() error
		is   error
	}{
		"set twice":       {func() error { return s.Set("a", cluster("one", 1), cluster("one", 2)) }, snapshot.ErrDuplicate},
		"replace twice":   {func() error { return s.Replace("a", cluster("one", 1), cluster("one", 2)) }, snapshot.ErrDuplicate},
		"resources twice": {func() error { return s.SetResources("a", r, r) }, snapshot.ErrDuplicate},
		"nil resource":    {func() error { return s.SetResources("a", nil) }, nil},
		"nil message":     {func() error { return s.Set("a", nil) }, nil},
		"no resource":     {func() error { return s.Set("a", durationpb.New(1)) }, nil},
		"no name":         {func() error { return s.Set("a", cluster("", 1)) }, nil},
		"nil function":    {func() error { return s.GroupBy(nil) }, nil},
		"own error": {func() error {
			return s.Update(func(tx *mem.Tx) error { return errors.Join(tx.Set("a", cluster("x", 1)), boom) })
		}, boom},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.call(); err == nil || tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("the error is %v, want %v", err, tt.is)
			}
		})
	}
	to := &sink{}
	stop := run(t, s, to)
	stop() // the first batch is always delivered
	if got := to.state(); len(got) != 0 || len(to.batches) != 1 {
		t.Errorf("something was kept: %v", got)
	}
}

// Proves XS-83: the library delivers what it is given, rules broken or not.
func TestMessagesAreNotValidated(t *testing.T) {
	if err := mem.New().Set("a", cluster("one", -1)); err != nil {
		t.Error(err)
	}
}

func TestSinkRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, to, no := mem.New(), &sink{}, errors.New("no")
		to.refuse = no
		must(t, s.Set("a", cluster("one", 1)))
		stop := run(t, s, to)
		defer stop()
		synctest.Wait()
		if h := s.Health(); h.Loaded || !errors.Is(h.Err, no) {
			t.Errorf("the health is %+v", h)
		}
		if err := s.Set("a", cluster("two", 1)); !errors.Is(err, no) {
			t.Errorf("Set returned %v", err)
		}
		to.refuse = nil
		must(t, s.Set("a", cluster("three", 1))) // with everything before, but not what was refused
		if got := fmt.Sprint(to.names("a")); got != "[one three]" {
			t.Errorf("the sink has %s", got)
		}
		if h := s.Health(); !h.Loaded || h.Err != nil {
			t.Errorf("the health is %+v", h)
		}
	})
}

func TestRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		stop := run(t, s, &sink{})
		synctest.Wait()
		if err := s.Run(t.Context(), &sink{}); err == nil {
			t.Error("a second Run is accepted")
		}
		must(t, s.Set("a", cluster("one", 1)))
		stop()
		must(t, s.Set("a", cluster("two", 1)))
		to := &sink{}
		defer run(t, s, to)()
		synctest.Wait()
		if got := fmt.Sprint(to.names("a")); got != "[one two]" {
			t.Errorf("the second sink has %s", got)
		}
	})
}

// Calls from many goroutines, across the end and the beginning of Run, are
// neither lost nor stuck.
func TestConcurrentUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := mem.New()
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 50 {
					if err := s.Set("a", cluster(fmt.Sprint(w, "-", i), 1)); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		var to *sink
		for range 20 {
			to = &sink{}
			stop := run(t, s, to)
			time.Sleep(3 * time.Millisecond)
			stop()
		}
		wg.Wait()
		to = &sink{}
		defer run(t, s, to)()
		synctest.Wait()
		if n := len(to.names("a")); n != 400 {
			t.Errorf("the sink has %d resources, want 400", n)
		}
	})
}

// Whatever is called, before and during Run, the sink holds what a plain map
// would.
func TestSinkEqualsModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s, to := mem.New(), &sink{}
		model := map[string]map[string]int{}
		group := rapid.SampledFrom([]string{"a", "b", "c"})
		name := rapid.SampledFrom([]string{"1", "2", "3", "4"})
		step := func(tx *mem.Tx) {
			g, n, v := group.Draw(rt, "group"), name.Draw(rt, "name"), rapid.IntRange(1, 3).Draw(rt, "version")
			if model[g] == nil {
				model[g] = map[string]int{}
			}
			switch rapid.IntRange(0, 3).Draw(rt, "op") {
			case 0:
				must(t, tx.Set(g, cluster(n, v)))
				model[g][n] = v
			case 1:
				tx.Remove(g, key(n))
				delete(model[g], n)
			case 2:
				must(t, tx.Replace(g, cluster(n, v)))
				model[g] = map[string]int{n: v}
			case 3:
				tx.RemoveGroup(g)
				delete(model, g)
			}
		}
		some := func() {
			for range rapid.IntRange(0, 5).Draw(rt, "updates") {
				must(t, s.Update(func(tx *mem.Tx) error {
					for range rapid.IntRange(1, 4).Draw(rt, "steps") {
						step(tx)
					}
					return nil
				}))
			}
		}
		some()
		stop := run(t, s, to)
		defer stop()
		for !s.Health().Loaded {
			runtime.Gosched()
		}
		some()
		want := map[string][]string{}
		for g, names := range model {
			want[g] = []string{}
			for _, n := range slices.Sorted(maps.Keys(names)) {
				r, err := xds.Marshal(n, proto.Message(cluster(n, names[n])))
				must(t, err)
				want[g] = append(want[g], n+"="+r.Version())
			}
		}
		if got := to.state(); fmt.Sprint(got) != fmt.Sprint(want) {
			rt.Fatalf("the sink has %v, want %v", got, want)
		}
	})
}
