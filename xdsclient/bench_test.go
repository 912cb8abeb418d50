package xdsclient_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// pipe is a server in memory without a network, for measuring the client alone.
type pipe struct{ streams chan *pipeStream }

type pipeStream struct {
	ctx       context.Context
	requests  chan *client.Request
	responses chan *client.Response
}

func (p *pipe) Open(ctx context.Context, _ xdsclient.Opening) (xdsclient.Stream, error) {
	st := &pipeStream{ctx: ctx, requests: make(chan *client.Request, 16), responses: make(chan *client.Response)}
	p.streams <- st
	return st, nil
}

func (*pipe) Close() error { return nil }

func (st *pipeStream) Send(r *client.Request) error {
	select {
	case st.requests <- r:
		return nil
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
}

func (st *pipeStream) Recv() (*client.Response, error) {
	select {
	case r := <-st.responses:
		return r, nil
	case <-st.ctx.Done():
		return nil, st.ctx.Err()
	}
}

const benchNames = 2000

// benchmark measures one change to one of 2000 watched resources, from the
// response to the callback and the ACK. all sends every resource with each
// change, as a state-of-the-world server may.
func benchmark(b *testing.B, delta, all bool) {
	p := &pipe{streams: make(chan *pipeStream, 1)}
	s := source(b, xdsclient.Config{Delta: delta, Servers: []xdsclient.Server{to("pipe", p)}})
	changed := make(chan struct{}, benchNames)
	for i := range benchNames {
		xdsclient.Watch(s, edsType(), fmt.Sprint("c", i), xdsclient.Funcs[string]{
			Change: func(xdsclient.Update[string]) { changed <- struct{}{} },
		})
	}
	st := <-p.streams
	var items []string
	for i := range benchNames {
		items = append(items, fmt.Sprintf("c%d=0", i))
	}
	first := eds("0", "0", items...)
	response := func(n int) *client.Response {
		r := eds(fmt.Sprint(n), fmt.Sprint(n), fmt.Sprintf("c%d=%d", n%benchNames, n))
		if all {
			first.Resources[n%benchNames] = r.Resources[0]
			r.Resources = first.Resources
		}
		if delta {
			named(r)
		}
		return r
	}
	<-st.requests
	if delta {
		named(first)
	}
	st.responses <- first
	for range benchNames {
		<-changed
	}
	drain(st)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		st.responses <- response(n)
		<-changed
		drain(st)
	}
}

// drain waits for the ACK of what was sent.
func drain(st *pipeStream) {
	for r := range st.requests {
		if r.Answer {
			return
		}
	}
}

func BenchmarkChangeOf2000Delta(b *testing.B)   { benchmark(b, true, false) }
func BenchmarkChangeOf2000Sotw(b *testing.B)    { benchmark(b, false, false) }
func BenchmarkChangeOf2000SotwAll(b *testing.B) { benchmark(b, false, true) }

// BenchmarkWatches is the start: 2000 watches, their one response, and the end.
func BenchmarkWatches(b *testing.B) {
	var items []string
	for i := range benchNames {
		items = append(items, fmt.Sprintf("c%d=0", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		p := &pipe{streams: make(chan *pipeStream, 1)}
		s := source(b, xdsclient.Config{Servers: []xdsclient.Server{to("pipe", p)}})
		left, done := benchNames, make(chan struct{})
		for i := range benchNames {
			xdsclient.Watch(s, edsType(), fmt.Sprint("c", i), xdsclient.Funcs[string]{Change: func(xdsclient.Update[string]) {
				if left--; left == 0 {
					close(done)
				}
			}})
		}
		st := <-p.streams
		requests := 0
		for names := 0; names < benchNames; requests++ {
			names = len((<-st.requests).Names)
		}
		if requests > 3 {
			b.Fatalf("%d requests", requests)
		}
		st.responses <- eds("1", "A", items...)
		<-done
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// A watched resource costs at most 4 KiB at rest.
func TestIdleCost(t *testing.T) {
	p := &pipe{streams: make(chan *pipeStream, 1)}
	s := source(t, xdsclient.Config{Servers: []xdsclient.Server{to("pipe", p)}})
	before := heap()
	const n = 20_000
	got := make(chan struct{})
	left := n
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf("c%d=0", i))
		xdsclient.Watch(s, edsType(), fmt.Sprint("c", i), xdsclient.Funcs[string]{Change: func(xdsclient.Update[string]) {
			if left--; left == 0 {
				close(got)
			}
		}})
	}
	st := <-p.streams
	for names := 0; names < n; {
		names = len((<-st.requests).Names)
	}
	st.responses <- eds("1", "A", items...)
	<-got
	if each := (heap() - before) / n; each > 4<<10 {
		t.Errorf("%d bytes for each watched resource", each)
	} else {
		t.Logf("%d bytes for each watched resource", each)
	}
	if held := len(s.Resources()); held != n {
		t.Errorf("%d resources are held", held)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
