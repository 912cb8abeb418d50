package engine

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// free finds a loopback address that nobody listens on.
func free(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// drive loads something for a short time, and for longer until there has been
// a request.
func drive(t *testing.T, o Options) *Result {
	t.Helper()
	l, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Connect(); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		r, err := l.Run(100 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if r.Requests > 0 {
			return r
		}
	}
	t.Fatal("no request was answered in ten seconds")
	return nil
}

// The clients and the upstream are each other's peers here; client_test.go has
// net/http in the place of either.
func TestClientsAndUpstreamUnderstandEachOther(t *testing.T) {
	h2 := Options{HTTP2: true, Connections: 2, Streams: 8, ResponseBody: 1024}
	rpc := Options{GRPC: true, Connections: 2, Streams: 8, RequestBody: 64, ResponseBody: 64}
	with := func(o Options, change func(*Options)) Options {
		change(&o)
		return o
	}
	for name, o := range map[string]Options{
		"h1":              {Connections: 4, ResponseBody: 1024},
		"h1 POST":         {Connections: 4, RequestBody: 16384, ResponseBody: 10},
		"h1 large":        {Connections: 2, ResponseBody: 1 << 20, RequestBody: 1 << 20},
		"h1 without body": {Connections: 2},
		"h1 rate":         {Connections: 4, ResponseBody: 1024, Rate: 2000},
		"h2":              h2,
		"h2 POST":         with(h2, func(o *Options) { o.RequestBody = 40_000 }),
		"h2 no body":      with(h2, func(o *Options) { o.ResponseBody = 0 }),
		"h1 sleeping":     {Connections: 4, ResponseBody: 1024, Rate: 2000, Sleep: true},
		"h2 rate":         with(h2, func(o *Options) { o.Rate = 2000 }),
		"h2 large":        with(h2, func(o *Options) { o.ResponseBody = 500_000 }),
		"grpc":            rpc,
		"grpc rate":       with(rpc, func(o *Options) { o.Rate = 2000 }),
		"grpc large":      with(rpc, func(o *Options) { o.RequestBody, o.ResponseBody = 60_000, 60_000 }),
	} {
		t.Run(name, func(t *testing.T) {
			o.Target = free(t)
			if o.HTTP2 || o.GRPC {
				o.Upstream2 = []netip.AddrPort{o.Target}
			} else {
				o.Upstream1 = []netip.AddrPort{o.Target}
			}
			r := drive(t, o)
			if r.Wrong > 0 {
				t.Errorf("%d of %d wrong", r.Wrong, r.Requests)
			}
			// Of those that were on their way when the time began, some had come before.
			underway := int64(o.Connections * max(1, o.Streams))
			if least := (r.Requests - underway) * int64(o.ResponseBody); r.Bytes < least {
				t.Errorf("%d bytes for %d requests of %d", r.Bytes, r.Requests, o.ResponseBody)
			}
			if r.Latency.Quantile(.5) <= 0 || r.Latency.Quantile(1) < r.Latency.Quantile(.5) {
				t.Errorf("p50 %s, longest %s", r.Latency.Quantile(.5), r.Latency.Quantile(1))
			}
		})
	}
}

func TestRateIsKept(t *testing.T) {
	at := free(t)
	l, err := New(Options{Target: at, Upstream1: []netip.AddrPort{at}, Connections: 8, Rate: 500})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Connect(); err != nil {
		t.Fatal(err)
	}
	var n int64
	var took time.Duration
	for range 10 {
		r, err := l.Run(200 * time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		n += r.Requests
		took += r.Time
	}
	// A thousand arrivals at random times deviate by 3 % or so.
	if rate := float64(n) / took.Seconds(); rate < 400 || rate > 600 {
		t.Errorf("%.0f requests/s instead of 500", rate)
	}
}
