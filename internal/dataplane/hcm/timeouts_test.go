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

// Partly proves HC-21, HC-24: how long streams and connections may last if nobody says so.
func TestDefaultTimeouts(t *testing.T) {
	cfg := newSite(t, nil).cfg
	if cfg.StreamIdle != 5*time.Minute || cfg.FlushTimeout != 5*time.Minute || cfg.MaxStream != 0 || cfg.MaxConnection != 0 || cfg.MaxConnJitter != 0 {
		t.Errorf("by default %v, %v, %v, %v, %v", cfg.StreamIdle, cfg.FlushTimeout, cfg.MaxStream, cfg.MaxConnection, cfg.MaxConnJitter)
	}
	cfg = newSite(t, func(m *hcmv3.HttpConnectionManager) { m.StreamIdleTimeout = &durationpb.Duration{} }).cfg
	if cfg.StreamIdle != 0 || cfg.FlushTimeout != 0 {
		t.Errorf("turned off: %v, %v", cfg.StreamIdle, cfg.FlushTimeout)
	}
}

// TestMaxConnectionJitter is on virtual time. Partly proves HC-24: connections are drained at
// their age, and up to a part of it later.
func TestMaxConnectionJitter(t *testing.T) {
	const age = 100 * time.Second
	for name, tc := range map[string]struct {
		jitter          *typev3.Percent
		most, different time.Duration // beyond the age, and between the first and the last
	}{"none": {nil, 0, 0}, "half": {&typev3.Percent{Value: 50}, age / 2, age / 4}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, func(m *hcmv3.HttpConnectionManager) {
					m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{MaxConnectionDuration: durationpb.New(age)}
					m.CommonHttpProtocolOptions.MaxConnectionDurationJitter = tc.jitter
				})
				var conns []*client2
				for range 20 {
					conns = append(conns, s.dial2(false))
				}
				began := time.Now()
				time.Sleep(2 * age)
				shortest, longest := time.Hour, time.Duration(0)
				for i, c := range conns {
					got := c.seen()
					if len(got) == 0 || got[0].what[:6] != "goaway" {
						t.Fatalf("connection %d: %v", i, got)
					}
					d := got[0].at.Sub(began)
					shortest, longest = min(shortest, d), max(longest, d)
				}
				const resolution = 10 * time.Millisecond
				if shortest < age-resolution || longest > age+tc.most+resolution || longest-shortest < tc.different {
					t.Errorf("drained after %v to %v", shortest, longest)
				}
			})
		})
	}
}
