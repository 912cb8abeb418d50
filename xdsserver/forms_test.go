package xdsserver

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// A form is made once, whoever asks for it at the same time, and forgotten with its
// resource; of one that is the resource itself nothing is kept.
func TestForms(t *testing.T) {
	var made, failed atomic.Int64
	c := &forms{
		convert: func(r *xds.Resource) (*xds.Resource, error) {
			made.Add(1)
			switch r.Name() {
			case "bad":
				return nil, errors.New("no")
			case "same":
				return r, nil
			}
			return xds.NewResource(r.TypeURL(), r.Name(), []byte("other")), nil
		},
		failed: func(*xds.Resource, error) { failed.Add(1) },
	}
	list := []*xds.Resource{xds.NewResource("t", "a", nil), xds.NewResource("t", "bad", nil), xds.NewResource("t", "same", nil)}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			got := c.list(list)
			if len(got) != 2 || string(got[0].Body()) != "other" || got[1] != list[2] {
				t.Errorf("got %v", got)
			}
		})
	}
	wg.Wait()
	if a, b := c.list(list), c.list(list); a[0] != b[0] || made.Load() != 3 || failed.Load() != 1 {
		t.Errorf("made %d, failed %d", made.Load(), failed.Load())
	}
	clear(list) // so that they can be collected
	left := 0
	for range 100 {
		runtime.GC()
		c.mu.Lock()
		left = len(c.made)
		c.mu.Unlock()
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d forms are kept of resources that are gone", left)
}

// Without a client that asks for v2 nothing is converted.
func TestFormsCostNothing(t *testing.T) {
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	r := xds.NewResource(xds.ClusterType, "c", nil)
	if err := s.Apply(snapshot.Batch{Full: true, Groups: map[string]snapshot.Changes{DefaultGroup: {Set: []*xds.Resource{r}}}}); err != nil {
		t.Fatal(err)
	}
	for _, typeURL := range []string{xds.ClusterType, xds.V2Type(xds.ClusterType)} {
		if got := len(s.v2.made); got != 0 {
			t.Fatalf("%d forms", got)
		}
		if _, err := s.fetch(t.Context(), method{only: typeURL}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(s.v2.made); got != 1 {
		t.Fatalf("%d forms of what v2 was asked for", got)
	}
}
