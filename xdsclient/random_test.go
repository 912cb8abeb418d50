package xdsclient_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// walk does things at random to a server and a source that watches it, and keeps
// what must come of it.
type walk struct {
	t       *testing.T
	rnd     *rand.Rand
	m       *management
	s       *xdsclient.Source
	content map[string]string // by cluster name
	watches map[string][]func()
}

var errBad = fmt.Errorf("alt_stat_name: must not be bad")

func refuseBad() xdsclient.Type[*clusterv3.Cluster] {
	t := xdsclient.Clusters()
	t.Validate = func(_, _ string, c *clusterv3.Cluster) error {
		if c.GetAltStatName() == "bad" {
			return errBad
		}
		return nil
	}
	return t
}

func (w *walk) name() string { return fmt.Sprint("c", w.rnd.IntN(6)) }

func (w *walk) step(i int) {
	switch w.rnd.IntN(12) {
	case 0, 1, 2, 3:
		name, mark := w.name(), fmt.Sprint(i)
		if w.rnd.IntN(5) == 0 {
			mark = "bad"
		}
		w.content[name] = mark
		w.m.set(cluster(w.t, name, mark))
	case 4:
		name := w.name()
		delete(w.content, name)
		w.m.apply(snapshot.Changes{Remove: []xds.Key{{Type: xds.ClusterType, Name: name}}})
	case 5, 6, 7:
		name := w.name()
		if w.rnd.IntN(4) == 0 {
			name = xdsclient.Wildcard
		}
		cancel := xdsclient.Watch(w.s, refuseBad(), name, xdsclient.Funcs[*clusterv3.Cluster]{})
		w.watches[name] = append(w.watches[name], cancel)
	case 8, 9, 10:
		for name, list := range w.watches {
			if len(list) > 0 {
				list[0]()
				w.watches[name] = list[1:]
				break
			}
		}
	case 11:
		addr := w.m.addr
		w.m.stop()
		w.m.start(addr)
	}
	if w.rnd.IntN(3) == 0 {
		time.Sleep(time.Duration(w.rnd.IntN(15)) * time.Millisecond)
	}
}

// wrong says in what the source differs from what it must hold by now; empty if
// in nothing.
func (w *walk) wrong() string {
	held := map[string]string{}
	for _, r := range w.s.Resources() {
		if r.Held {
			var c clusterv3.Cluster
			if err := r.Body.UnmarshalTo(&c); err != nil {
				return err.Error()
			}
			held[r.Name] = c.GetAltStatName()
		}
	}
	all := len(w.watches[xdsclient.Wildcard]) > 0
	for i := range 6 {
		name := fmt.Sprint("c", i)
		want, exists := w.content[name]
		got, has := held[name]
		switch wanted := all || len(w.watches[name]) > 0; {
		case !wanted && has:
			return name + " is held though nobody wants it"
		case wanted && !exists && has:
			return name + " is held though it does not exist"
		case wanted && exists && want != "bad" && got != want:
			return fmt.Sprintf("%s is %q, want %q", name, got, want)
		case got == "bad":
			return name + " is held though it is invalid"
		}
	}
	return ""
}

// Proves GC-40, GC-48, GC-52, XC-15, XC-40: whatever happens in whatever order,
// in the end a source holds what is watched, valid and there, and nothing else.
func TestRandomWalk(t *testing.T) {
	variants(t, func(t *testing.T, c xdsclient.Config, dial dialer) {
		t.Parallel()
		for seed := range uint64(4) {
			m := serve(t)
			c.Servers = []xdsclient.Server{to("main", dial.to(m.addr))}
			c.Backoff = quick()
			w := &walk{
				t: t, rnd: rand.New(rand.NewPCG(seed, 1)), m: m, s: source(t, c),
				content: map[string]string{}, watches: map[string][]func(){},
			}
			// Something is always watched, so that streams go on.
			w.watches["c0"] = append(w.watches["c0"], xdsclient.Watch(w.s, refuseBad(), "c0", xdsclient.Funcs[*clusterv3.Cluster]{}))
			for i := range 150 {
				w.step(i)
			}
			deadline := time.Now().Add(20 * time.Second)
			for w.wrong() != "" && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond)
			}
			if wrong := w.wrong(); wrong != "" {
				t.Fatalf("seed %d: %s; content %v, watched %v, held %+v", seed, wrong, w.content, count(w.watches), w.s.Resources())
			}
		}
	})
}

func count(m map[string][]func()) map[string]int {
	n := map[string]int{}
	for k, v := range m {
		n[k] = len(v)
	}
	return n
}
