package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// blind accepts everything and reads names out of a map, so that a benchmark
// measures the channel.
type blind struct{ checks int }

func (b *blind) Name(_ string, body []byte) (string, error) { return string(body[:nameSize]), nil }

func (b *blind) Check(_, _, _ string, _ client.Form, _ []byte) (any, error) {
	b.checks++
	return nil, nil
}

func (*blind) Leaving(string, []string) {}

func (b *blind) CheckAll(_, _ string, _ []client.Event) error { return nil }

func benchName(i int) string { return fmt.Sprintf("cluster-%07d", i) }

func benchType(api string) xds.Type {
	t, _ := xds.LookupType(api)
	return t
}

func benchRaw(t xds.Type, i int, version byte, delta bool) client.Raw {
	body := make([]byte, 1000)
	copy(body, benchName(i))
	body[999] = version
	r := client.Raw{TypeURL: t.URL, Body: body, HasBody: true}
	if delta {
		r.Name, r.Version = benchName(i), string(version)
	}
	return r
}

const (
	nameSize  = len("cluster-0000000")
	benchSize = 2000
)

// loaded is a channel that holds resources of a type by name.
func loaded(tb testing.TB, t xds.Type, delta bool, n int) (*client.Channel, *blind, *client.Response) {
	b := &blind{}
	ch := client.New(client.Config{Delta: delta, Checker: b})
	now := time.Unix(0, 0)
	r := &client.Response{TypeURL: t.URL, Version: "0", Nonce: "0"}
	for i := range n {
		ch.Subscribe(t, benchName(i))
		r.Resources = append(r.Resources, benchRaw(t, i, 0, delta))
	}
	ch.Open(now)
	if ch.Next(now) == nil || ch.Receive(now, r).Err != nil || ch.Next(now) == nil {
		tb.Fatal("the channel does not work")
	}
	return ch, b, r
}

// BenchmarkSubscribe is 2000 new names and the request for them (GC-196).
func BenchmarkSubscribe(b *testing.B) {
	for _, delta := range []bool{false, true} {
		b.Run(variant(delta), func(b *testing.B) {
			names := make([]string, benchSize)
			for i := range names {
				names[i] = benchName(i)
			}
			t := benchType("CDS")
			now := time.Unix(0, 0)
			b.ReportAllocs()
			for b.Loop() {
				ch := client.New(client.Config{Delta: delta, Checker: &blind{}})
				ch.Open(now)
				for _, n := range names {
					ch.Subscribe(t, n)
				}
				if ch.Next(now) == nil || ch.Next(now) != nil {
					b.Fatal("not one request")
				}
			}
		})
	}
}

func variant(delta bool) string {
	if delta {
		return "delta"
	}
	return "sotw"
}

// BenchmarkOneOfMany is a response after one of 2000 resources changed, and its
// answer: in SotW it holds all 2000, in delta one (GC-197).
func BenchmarkOneOfMany(b *testing.B) {
	for _, delta := range []bool{false, true} {
		b.Run(variant(delta), func(b *testing.B) {
			t := benchType("CDS")
			ch, checker, full := loaded(b, t, delta, benchSize)
			other := *full
			other.Resources = append([]client.Raw(nil), full.Resources...)
			other.Resources[7] = benchRaw(t, 7, 1, delta)
			turns := [2]*client.Response{&other, full}
			if delta {
				turns[0] = &client.Response{TypeURL: t.URL, Nonce: "1", Resources: other.Resources[7:8]}
				turns[1] = &client.Response{TypeURL: t.URL, Nonce: "2", Resources: full.Resources[7:8]}
			}
			now := time.Unix(0, 0)
			before, i := checker.checks, 0
			b.ReportAllocs()
			for b.Loop() {
				if out := ch.Receive(now, turns[i&1]); out.Err != nil || len(out.Events) != 1 {
					b.Fatal("not one change")
				}
				if ch.Next(now) == nil {
					b.Fatal("no answer")
				}
				i++
			}
			if checker.checks-before != i {
				b.Fatalf("%d decoded in %d responses", checker.checks-before, i)
			}
		})
	}
}

// BenchmarkOneName is one more name beside 2000 and one less, and the requests.
func BenchmarkOneName(b *testing.B) {
	for _, delta := range []bool{false, true} {
		b.Run(variant(delta), func(b *testing.B) {
			t := benchType("EDS")
			ch, _, _ := loaded(b, t, delta, benchSize)
			now := time.Unix(0, 0)
			b.ReportAllocs()
			for b.Loop() {
				ch.Subscribe(t, "more")
				first := ch.Next(now)
				ch.Unsubscribe(t.URL, "more")
				if first == nil || ch.Next(now) == nil {
					b.Fatal("no request")
				}
			}
		})
	}
}
