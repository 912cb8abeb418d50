package hcm

import (
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	pingInterval = 10 * time.Second
	pingTimeout  = 3 * time.Second
)

func pingSite(t *testing.T, jitter *typev3.Percent) *site {
	t.Helper()
	return newSite(t, func(m *hcmv3.HttpConnectionManager) {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{ConnectionKeepalive: &corev3.KeepaliveSettings{
			Interval: durationpb.New(pingInterval), Timeout: durationpb.New(pingTimeout), IntervalJitter: jitter,
		}}
	})
}

// TestKeepaliveIntervals is on virtual time. Proves HC-08 with TestSilentClient here, and
// TestKeepalive, TestUpstreamKeepalive and TestKeepaliveBeforeReuse of package proxy: a client that answers is asked again
// an interval after its answer, and up to 15 % later unless interval_jitter says otherwise.
func TestKeepaliveIntervals(t *testing.T) {
	for name, tc := range map[string]struct {
		jitter   *typev3.Percent
		most     time.Duration // beyond the interval
		atLeast  time.Duration // between the shortest and the longest
		interval time.Duration
	}{
		"default": {nil, 15 * pingInterval / 100, pingInterval / 10, pingInterval},
		"none":    {&typev3.Percent{}, 0, 0, pingInterval},
		"half":    {&typev3.Percent{Value: 50}, pingInterval / 2, pingInterval / 4, pingInterval},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := pingSite(t, tc.jitter).dial2(false)
				last := time.Now()
				time.Sleep(100 * tc.interval)
				shortest, longest := time.Hour, time.Duration(0)
				got := c.seen()
				for _, s := range got {
					if s.what != "ping" {
						t.Fatalf("%v", s)
					}
					shortest, longest = min(shortest, s.at.Sub(last)), max(longest, s.at.Sub(last))
					last = s.at
				}
				const resolution = 10 * time.Millisecond
				if len(got) < 60 || shortest < tc.interval || longest > tc.interval+tc.most+resolution || longest-shortest < tc.atLeast {
					t.Errorf("%d times, after %v to %v", len(got), shortest, longest)
				}
			})
		})
	}
}

// TestSilentClient is on virtual time: a client that does not answer loses its connection
// when the timeout is over. What it sends puts that off, as in Envoy: the answer may be behind
// it.
func TestSilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pingSite(t, &typev3.Percent{})
		began := time.Now()
		silent, busy := s.dial2(true), s.dial2(true)
		for range 30 {
			time.Sleep(time.Second)
			if err := busy.ask(); err != nil {
				t.Fatal(err)
			}
		}
		last := time.Now()
		time.Sleep(time.Minute)
		expectSeen(t, "silent", silent.seen(), began, []seen{{began.Add(pingInterval), "ping"}, {began.Add(pingInterval + pingTimeout), "end"}})
		got := busy.seen()
		if n := len(got); n != 32 || got[n-1].what != "end" || got[n-1].at.Sub(last) < pingTimeout || got[n-1].at.Sub(last) > pingTimeout+10*time.Millisecond {
			t.Errorf("busy: %v", got)
		}
	})
}
