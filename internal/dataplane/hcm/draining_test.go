package hcm

import (
	"testing"
	"testing/synctest"
	"time"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xebec-proxy/xebec/internal/dataplane/listener"
)

const (
	drainTime    = 600 * time.Second
	drainTimeout = 3 * time.Second
	many         = 400
	// near half of many: four standard deviations.
	few, most = many/2 - 40, many/2 + 40
)

func drainSite(t *testing.T) *site {
	t.Helper()
	return newSite(t, func(m *hcmv3.HttpConnectionManager) { m.DrainTimeout = durationpb.New(drainTimeout) })
}

// retire makes connections end in order from now on.
func (s *site) retire(immediate bool, conns ...*client) {
	s.on(func() {
		d := &listener.Draining{Since: s.loop.Now(), Time: drainTime, Immediate: immediate}
		for _, c := range conns {
			c.conn.Retire(d)
		}
	})
}

// asked sends a request on each connection and returns those that stay.
func asked(t *testing.T, conns []*client) (stay []*client) {
	t.Helper()
	for i, c := range conns {
		stays, err := c.ask()
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		if stays {
			stay = append(stay, c)
		}
	}
	return stay
}

// TestDrainOfHTTP1 is on virtual time. Proves LM-07, beside TestDrainOfHTTP2 and
// TestDrainStrategies: of the gradual strategy responses say connection: close at
// first never, in the middle of the drain time about half of them, and at its end
// all; of the immediate one, all at once.
func TestDrainOfHTTP1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := drainSite(t)
		var conns []*client
		for range many {
			conns = append(conns, s.dial())
		}
		conns = asked(t, conns)
		s.retire(false, conns...)
		if conns = asked(t, conns); len(conns) != many {
			t.Fatalf("%d of %d stay before and at the beginning", len(conns), many)
		}
		time.Sleep(drainTime / 2)
		if conns = asked(t, conns); len(conns) < few || len(conns) > most {
			t.Errorf("%d of %d stay at half-time", len(conns), many)
		}
		time.Sleep(drainTime / 2)
		if conns = asked(t, conns); len(conns) > 0 {
			t.Errorf("%d stay at the end", len(conns))
		}
		one := s.dial()
		s.retire(true, one)
		if stays, err := one.ask(); stays || err != nil {
			t.Errorf("immediately: stays %v, %v", stays, err)
		}
	})
}

// TestDrainOfHTTP2 is on virtual time: what ends a connection of HTTP/1 begins to
// end one of HTTP/2, which is told so twice, with drain_timeout in between.
func TestDrainOfHTTP2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := drainSite(t)
		var conns []*client2
		for range many {
			c := s.dial2(false)
			conns = append(conns, c)
			s.retire(false, c.client)
			if err := c.ask(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(drainTime / 2)
		half, told := time.Now(), 0
		for _, c := range conns {
			expect(t, "at first", c, "head 1")
			if err := c.ask(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(drainTimeout + time.Second)
		for _, c := range conns {
			got := c.seen()
			if len(got) == 1 && got[0].what == "head 3" {
				continue
			}
			told++
			expectSeen(t, "at half-time", got, half, []seen{
				{half, "goaway 2147483647"}, {half, "head 3"}, {half.Add(drainTimeout), "goaway 3"}, {half.Add(drainTimeout), "end"},
			})
		}
		if told < few || told > most {
			t.Errorf("%d of %d were told to go at half-time", told, many)
		}
	})
}

// TestIdleHTTP2IsDrained is on virtual time: a connection without requests is told
// to go in the last part of the drain time, so early that it is told twice.
func TestIdleHTTP2IsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := drainSite(t)
		var conns []*client2
		for range 100 {
			conns = append(conns, s.dial2(false))
		}
		synctest.Wait()
		began := time.Now()
		for _, c := range conns {
			s.retire(false, c.client)
		}
		time.Sleep(drainTime)
		early, late := drainTime, time.Duration(0)
		for i, c := range conns {
			got := c.seen()
			if len(got) == 0 {
				t.Fatalf("connection %d was told nothing", i)
			}
			first := got[0].at
			early, late = min(early, first.Sub(began)), max(late, first.Sub(began))
			expectSeen(t, "without requests", got, began, []seen{
				{first, "goaway 2147483647"}, {first.Add(drainTimeout), "goaway 0"}, {first.Add(drainTimeout), "end"},
			})
		}
		if early < drainTime*2/3 || late > drainTime-drainTimeout+time.Second || late-early < drainTime/5 {
			t.Errorf("they were told after %v to %v", early, late)
		}
		one := s.dial2(false)
		synctest.Wait()
		s.retire(true, one.client)
		synctest.Wait()
		expect(t, "immediately", one, "goaway 2147483647")
	})
}

func expect(t *testing.T, when string, c *client2, what ...string) {
	t.Helper()
	got := c.seen()
	if len(got) != len(what) {
		t.Fatalf("%s: %v", when, got)
	}
	for i := range got {
		if got[i].what != what[i] {
			t.Fatalf("%s: %v", when, got)
		}
	}
}

// expectSeen compares what came, and when: timers have a resolution.
func expectSeen(t *testing.T, when string, got []seen, since time.Time, want []seen) {
	t.Helper()
	ok := len(got) == len(want)
	for i := 0; ok && i < len(got); i++ {
		late := got[i].at.Sub(want[i].at)
		ok = got[i].what == want[i].what && late >= 0 && late < 10*time.Millisecond
	}
	if ok {
		return
	}
	for _, g := range got {
		t.Logf("%v %s", g.at.Sub(since), g.what)
	}
	t.Fatalf("%s: not what was expected", when)
}
