package proxy_test

import (
	"bytes"
	"crypto/rand"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// recorder is a network filter whose calls are written down.
type recorder struct {
	name   string
	events chan string
	conn   filter.Connection
	onNew  func(*recorder) filter.NetworkStatus
	onData func(*recorder, *filter.Buffer, bool) filter.NetworkStatus
	onSend func(*recorder, *filter.Buffer, bool) filter.NetworkStatus
}

func (r *recorder) note(what string) { r.events <- r.name + " " + what }

func (r *recorder) OnNewConnection() filter.NetworkStatus {
	r.note("new")
	if r.onNew != nil {
		return r.onNew(r)
	}
	return filter.NetworkContinue
}

func told(b *filter.Buffer, end bool) string {
	s := string(b.Bytes())
	if len(s) > 20 {
		s = "much"
	}
	if end {
		s += " end"
	}
	return s
}

func (r *recorder) OnData(b *filter.Buffer, end bool) filter.NetworkStatus {
	r.note("data " + told(b, end))
	if r.onData != nil {
		return r.onData(r, b, end)
	}
	return filter.NetworkContinue
}

func (r *recorder) OnWrite(b *filter.Buffer, end bool) filter.NetworkStatus {
	r.note("write " + told(b, end))
	if r.onSend != nil {
		return r.onSend(r, b, end)
	}
	return filter.NetworkContinue
}

func (r *recorder) OnAboveHighWatermark() { r.note("above") }
func (r *recorder) OnBelowLowWatermark()  { r.note("below") }
func (r *recorder) OnClose(bool)          { r.note("close") }

// recorders makes factories of recorders; change says how one differs.
func recorders(events chan string, change map[string]func(*recorder), names ...string) map[string]filter.NetworkFactory {
	by := map[string]filter.NetworkFactory{}
	for _, n := range names {
		by[n] = func(c filter.Connection) filter.NetworkFilter {
			r := &recorder{name: n, events: events, conn: c}
			if f := change[n]; f != nil {
				f(r)
			}
			return filter.NetworkFilter{Read: r, Write: r}
		}
	}
	return by
}

// expect reads events.
func expect(t *testing.T, events chan string, want ...string) {
	t.Helper()
	var got []string
	for range want {
		select {
		case e := <-events:
			got = append(got, e)
		case <-t.Context().Done():
			t.Fatalf("got %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func threeAndEcho(more ...string) string {
	return bootstrapOf(listen("l", probe("a")+","+probe("b")+","+probe("c")+","+echoFilter, more...), "")
}

// Proves NF-01: OnNewConnection before data, reading in order, writing in
// reverse, the end included.
func TestNetworkFilterOrder(t *testing.T) {
	events := make(chan string, 100)
	r := start(t, threeAndEcho(), networkProbes(recorders(events, nil, "a", "b", "c")))
	c := r.dial(t, "l")
	expect(t, events, "a new", "b new", "c new")
	say(t, c, "x")
	hear(t, c, "x")
	expect(t, events, "a data x", "b data x", "c data x", "c write x", "b write x", "a write x")
	_ = c.CloseWrite()
	ends(t, c, "")
	expect(t, events, "a data  end", "b data  end", "c data  end", "c write  end", "b write  end", "a write  end", "a close", "b close", "c close")
}

// Proves NF-01 and partly proves NF-02: who stops in OnNewConnection holds the
// later filters back, which are told of the connection when it continues; who
// stops in OnData keeps the bytes and gets them again with more.
func TestNetworkFiltersStop(t *testing.T) {
	events := make(chan string, 100)
	var held *recorder
	ready := make(chan struct{})
	r := start(t, threeAndEcho(), networkProbes(recorders(events, map[string]func(*recorder){
		"b": func(b *recorder) {
			b.onNew = func(*recorder) filter.NetworkStatus {
				held = b
				close(ready)
				return filter.NetworkStop
			}
		},
		"c": func(c *recorder) {
			c.onData = func(_ *recorder, b *filter.Buffer, _ bool) filter.NetworkStatus {
				if b.Len() < 6 {
					return filter.NetworkStop
				}
				return filter.NetworkContinue
			}
		},
	}, "a", "b", "c")))
	c := r.dial(t, "l")
	<-ready
	expect(t, events, "a new", "b new")
	say(t, c, "one")
	expect(t, events, "a data one", "b data one")
	held.conn.Post(held.conn.ContinueReading)
	expect(t, events, "c new", "c data one")
	say(t, c, "two")
	expect(t, events, "a data onetwo", "b data onetwo", "c data onetwo")
	hear(t, c, "onetwo")
}

// Partly proves NF-01: continuing from inside OnNewConnection is not lost.
func TestContinueWithinOnNewConnection(t *testing.T) {
	events := make(chan string, 100)
	r := start(t, threeAndEcho(), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onNew = func(*recorder) filter.NetworkStatus {
				a.conn.ContinueReading()
				return filter.NetworkStop
			}
		},
	}, "a", "b", "c")))
	c := r.dial(t, "l")
	say(t, c, "x")
	hear(t, c, "x")
	expect(t, events, "a new", "b new", "c new", "a data x", "b data x", "c data x")
}

// Partly proves NF-01: injected data passes the filters behind the one that
// injects, in both directions; what a later filter leaves of it while it stops
// is kept, comes again with more, and goes on when it continues.
func TestInjectedData(t *testing.T) {
	events := make(chan string, 100)
	var later *recorder
	r := start(t, threeAndEcho(), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onData = func(_ *recorder, b *filter.Buffer, end bool) filter.NetworkStatus {
				text := strings.ToUpper(string(b.Bytes()))
				b.Drain(b.Len())
				a.conn.InjectRead([]byte(text), end)
				return filter.NetworkStop
			}
		},
		"b": func(b *recorder) {
			later = b
			b.onData = func(*recorder, *filter.Buffer, bool) filter.NetworkStatus { return filter.NetworkStop }
			b.onSend = func(_ *recorder, data *filter.Buffer, end bool) filter.NetworkStatus {
				text := "<" + string(data.Bytes()) + ">"
				b.conn.Post(func() { b.conn.InjectWrite([]byte(text), end) })
				return filter.NetworkStop
			}
		},
	}, "a", "b", "c")))
	c := r.dial(t, "l")
	expect(t, events, "a new", "b new", "c new")
	say(t, c, "one")
	expect(t, events, "a data one", "b data ONE")
	say(t, c, "two")
	expect(t, events, "a data two", "b data ONETWO")
	later.conn.Post(later.conn.ContinueReading)
	hear(t, c, "<ONETWO>")
	expect(t, events, "c data ONETWO", "c write ONETWO", "b write ONETWO", "a write <ONETWO>")
}

// Proves NF-02, partly proves LM-13: while a filter waits, reading stops at the
// connection's limit, and nothing of what was sent is lost.
func TestHeldDataIsBounded(t *testing.T) {
	const limit, size, chunk = 16 << 10, 8 << 20, 256 << 10 // the last is read at once
	events := make(chan string, 10000)
	over := make(chan struct{})
	var held *recorder
	open := false
	length := 0
	r := start(t, threeAndEcho("per_connection_buffer_limit_bytes: 16384"), networkProbes(recorders(events, map[string]func(*recorder){
		"b": func(b *recorder) {
			held = b
			b.onData = func(_ *recorder, data *filter.Buffer, _ bool) filter.NetworkStatus {
				if open {
					return filter.NetworkContinue
				}
				if length <= limit && data.Len() > limit {
					close(over)
				}
				length = data.Len()
				return filter.NetworkStop
			}
		},
	}, "a", "b", "c")))
	sent := make([]byte, size)
	_, _ = rand.Read(sent)
	c := r.dial(t, "l")
	go func() { _, _ = c.Write(sent) }()
	<-over
	for range 50 { // turns of the loop that would read more if it did not wait
		turn := make(chan struct{})
		held.conn.Post(func() { close(turn) })
		<-turn
	}
	most := make(chan int)
	held.conn.Post(func() {
		most <- length
		open = true
		held.conn.ContinueReading()
	})
	if n := <-most; n > limit+chunk {
		t.Errorf("%d bytes are held", n)
	}
	got := make([]byte, size)
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what came back differs: %v", err)
	}
}

// Partly proves NF-06: a filter is told once when the client does not take what
// is written, and once when it does again.
func TestNetworkFilterWatermarks(t *testing.T) {
	const size = 16 << 20
	events := make(chan string, 100)
	r := start(t, bootstrapOf(listen("l", probe("a")+","+echoFilter, "per_connection_buffer_limit_bytes: 16384"), ""),
		networkProbes(recorders(events, map[string]func(*recorder){
			"a": func(a *recorder) {
				a.onNew = func(*recorder) filter.NetworkStatus {
					a.conn.Write(make([]byte, size), false)
					return filter.NetworkContinue
				}
			},
		}, "a")))
	c := r.dial(t, "l")
	expect(t, events, "a new", "a write much", "a above")
	if _, err := io.CopyN(io.Discard, c, size); err != nil {
		t.Fatal(err)
	}
	expect(t, events, "a below")
}

// Partly proves NF-03: what checks a configuration runs once for a chain, its
// filters are made for each connection.
func TestNetworkFiltersPerConnection(t *testing.T) {
	var checked, made atomic.Int64
	kind := filter.NetworkType{Config: (*wrapperspb.StringValue)(nil), New: func(proto.Message, *filter.Env) (filter.NetworkFactory, error) {
		checked.Add(1)
		return func(filter.Connection) filter.NetworkFilter { made.Add(1); return filter.NetworkFilter{} }, nil
	}}
	r := start(t, bootstrapOf(listen("l", probe("a")+","+echoFilter), ""), func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddNetwork(kind) }
	})
	for range 3 {
		c := r.dial(t, "l")
		say(t, c, "x")
		hear(t, c, "x")
	}
	if checked.Load() != 1 || made.Load() != 3 {
		t.Errorf("checked %d times, made %d times", checked.Load(), made.Load())
	}
}

// Proves NF-04.
func TestTerminalNetworkFilterIsLast(t *testing.T) {
	tests := []struct{ name, filters, want string }{
		{"terminal first", echoFilter + "," + okFilter, "terminal filter named echo of type "},
		{"two managers", okFilter + "," + okFilter, "terminal filter named hcm of type "},
		{"none", probe("a"), "non-terminal filter named a of type "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o proxy.Options
			networkProbes(recorders(nil, nil, "a"))(&proxyrun.Flags{}, &o)
			_, err := proxy.New(unchecked(t, bootstrapOf(listen("l", tt.filters), "")), o)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "the last filter") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// Partly proves NF-22: the ways a filter can close. What is buffered is sent
// unless it says no; a reset is one; the details are in the log.
func TestFiltersClose(t *testing.T) {
	const size = 4 << 20
	tests := []struct {
		name  string
		how   filter.CloseType
		whole bool
	}{
		{"flush", filter.FlushWrite, true},
		{"flush and wait", filter.FlushWriteAndDelay, true},
		{"no flush", filter.NoFlush, false},
		{"reset", filter.Abort, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events := make(chan string, 100)
			log := &syncBuffer{}
			r := start(t, bootstrapOf(listen("l", probe("a")+","+echoFilter, logTo("log", "%CONNECTION_TERMINATION_DETAILS% %DOWNSTREAM_LOCAL_CLOSE_REASON%")), ""), logged(log),
				networkProbes(recorders(events, map[string]func(*recorder){
					"a": func(a *recorder) {
						a.onData = func(*recorder, *filter.Buffer, bool) filter.NetworkStatus {
							a.conn.Write(make([]byte, size), false)
							a.conn.Close(tt.how, "enough")
							return filter.NetworkStop
						}
					},
				}, "a")))
			c := r.dial(t, "l")
			say(t, c, "x")
			b, err := io.ReadAll(c)
			if whole := err == nil && len(b) == size; whole != tt.whole {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if reset := err != nil; reset != (tt.how == filter.Abort) {
				t.Errorf("how it ended: %v", err)
			}
			_ = c.Close()
			r.finish(t)
			if got := log.String(); got != "log enough enough\n" {
				t.Errorf("%q", got)
			}
		})
	}
}

// Proves NF-11: echo, and direct_response that closes, with the bytes in the
// listener's log.
func TestEchoAndDirectResponse(t *testing.T) {
	log := &syncBuffer{}
	const ops = "%BYTES_RECEIVED% %BYTES_SENT% %RESPONSE_CODE_DETAILS%"
	r := start(t, bootstrapOf(listen("echo", echoFilter, logTo("echo", ops))+listen("direct", canned("canned"), logTo("direct", ops)), ""), logged(log))
	c := r.dial(t, "echo")
	say(t, c, "abc")
	hear(t, c, "abc")
	say(t, c, "de")
	_ = c.CloseWrite()
	ends(t, c, "de")
	ends(t, r.dial(t, "direct"), "canned")
	r.finish(t)
	got := strings.Split(strings.TrimSpace(log.String()), "\n")
	slices.Sort(got)
	if diff := cmp.Diff([]string{"direct 0 6 direct_response", "echo 5 5 -"}, got); diff != "" {
		t.Error(diff)
	}
}

// Partly proves NF-01: the HTTP connection manager behind a filter that makes it
// wait; and what it sends passes the filter.
func TestConnectionManagerBehindFilter(t *testing.T) {
	events := make(chan string, 100)
	r := start(t, bootstrapOf(listen("l", probe("a")+","+okFilter), ""), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onNew = func(*recorder) filter.NetworkStatus {
				a.conn.Post(a.conn.ContinueReading)
				return filter.NetworkStop
			}
		},
	}, "a")))
	if got := r.fetch(t, "l"); got != "fine" {
		t.Errorf("%q", got)
	}
	var got []string
	for len(events) > 0 {
		got = append(got, <-events)
	}
	if !slices.Contains(got, "a data much") || !slices.Contains(got, "a write much") {
		t.Errorf("%q", got)
	}
}

// Proves NF-05 with TestTCPProxyHalfClose: what a network filter sets on the
// connection is there for each of its HTTP streams.
func TestStreamsInherit(t *testing.T) {
	events := make(chan string, 100)
	log := &syncBuffer{}
	manager := strings.Replace(okFilter, "stat_prefix: in,", "stat_prefix: in, "+logTo("log", "%DYNAMIC_METADATA(ns:key)% %FILTER_STATE(state:PLAIN)%")+",", 1)
	r := start(t, bootstrapOf(listen("l", probe("a")+","+manager), ""), logged(log), networkProbes(recorders(events, map[string]func(*recorder){
		"a": func(a *recorder) {
			a.onNew = func(*recorder) filter.NetworkStatus {
				a.conn.Info().SetMetadata("ns", "key", structpb.NewStringValue("value"))
				a.conn.Info().SetState("state", stated("kept"))
				return filter.NetworkContinue
			}
		},
	}, "a")))
	c := r.dial(t, "l")
	say(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(c); err != nil {
		t.Fatal(err)
	}
	r.finish(t)
	if got := log.String(); got != "log value kept\nlog value kept\n" {
		t.Errorf("%q", got)
	}
}

// stated is an object of the filter state.
type stated string

func (s stated) String() string { return string(s) }
