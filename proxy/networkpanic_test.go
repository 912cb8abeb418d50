package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// snare is a network filter that panics at one place, and counts what is called
// after that.
type snare struct {
	at     string
	conn   filter.Connection
	sprung bool
	later  *atomic.Int64
	above  chan bool
}

func (s *snare) step(name string) {
	if s.sprung {
		s.later.Add(1)
	}
	if s.at == name {
		s.sprung = true
		panic("snare at " + name)
	}
}

// fall panics outside of the filter's methods.
func (s *snare) fall() { s.step(s.at) }

func (s *snare) OnNewConnection() filter.NetworkStatus {
	s.step("new")
	switch s.at {
	case "post":
		s.conn.Post(s.fall)
	case "timer":
		s.conn.After(time.Millisecond, s.fall)
	case "work":
		s.conn.Go(func(context.Context) func() { panic("snare at work") })
	case "result":
		s.conn.Go(func(context.Context) func() { return s.fall })
	case "above", "below":
		s.conn.Write(make([]byte, 16<<20), false)
	}
	return filter.NetworkContinue
}

func (s *snare) OnData(_ *filter.Buffer, end bool) filter.NetworkStatus {
	s.step("data")
	if end {
		s.step("end")
	}
	return filter.NetworkContinue
}

func (s *snare) OnWrite(*filter.Buffer, bool) filter.NetworkStatus {
	s.step("write")
	return filter.NetworkContinue
}

func (s *snare) OnAboveHighWatermark() {
	s.above <- true
	s.step("above")
}

func (s *snare) OnBelowLowWatermark() { s.step("below") }
func (s *snare) OnClose(bool)         { s.step("close") }

// holder stops a connection and lets it go on later, from a posted function; it
// counts the ends it is told of.
type holder struct {
	conn   filter.Connection
	closed *atomic.Int64
}

func (h *holder) OnNewConnection() filter.NetworkStatus {
	h.conn.Go(func(context.Context) func() { return h.conn.ContinueReading })
	return filter.NetworkStop
}

func (*holder) OnData(*filter.Buffer, bool) filter.NetworkStatus { return filter.NetworkContinue }
func (*holder) OnAboveHighWatermark()                            {}
func (*holder) OnBelowLowWatermark()                             {}
func (h *holder) OnClose(bool)                                   { h.closed.Add(1) }

// springs uses a connection so that every place of a snare is reached, and
// returns when the proxy has closed it or the client has.
func springs(t *testing.T, address, at string, above <-chan bool) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		defer conn.Close()
		_, err = io.WriteString(conn, "x")
	}
	if ending(err) == "reset" {
		return // so soon
	}
	if err != nil {
		t.Fatal(err)
	}
	c, _ := conn.(*net.TCPConn)
	switch at {
	case "close":
		hear(t, c, "x")
		return
	case "end":
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	case "above", "below": // nothing is read before
		<-above
	}
	if n, err := io.Copy(io.Discard, c); ending(err) != "reset" {
		t.Errorf("%s: after %d bytes the connection was not reset but: %v", at, n, err)
	}
}

// Partly proves OV-09: a network filter that panics, wherever it does, has its
// connection reset, alone; it is logged and counted, nothing more is asked of
// the filter, and nothing stays behind.
func TestPanicsOfNetworkFilters(t *testing.T) {
	const rounds = 5
	places := []string{"factory", "new", "data", "end", "write", "above", "below", "close", "post", "timer", "work", "result"}
	var later, closed atomic.Int64
	above := make(chan bool, 2*rounds)
	by := map[string]filter.NetworkFactory{"holder": func(c filter.Connection) filter.NetworkFilter {
		return filter.NetworkFilter{Read: &holder{conn: c, closed: &closed}}
	}}
	listeners := listen("calm", echoFilter)
	for _, at := range places {
		by[at] = func(c filter.Connection) filter.NetworkFilter {
			s := &snare{at: at, conn: c, later: &later, above: above}
			s.step("factory")
			return filter.NetworkFilter{Read: s, Write: s}
		}
		listeners += listenChains(at, fmt.Sprintf("{name: chain-%s, filters: [%s, %s, %s]}", at, probe("holder"), probe(at), echoFilter), "per_connection_buffer_limit_bytes: 1000")
	}
	r := start(t, bootstrapOf(listeners, ""), networkProbes(by))
	calm := r.dial(t, "calm")
	say(t, calm, "before")
	hear(t, calm, "before")
	for _, at := range places {
		for range rounds {
			springs(t, r.at(at), at, above)
		}
		r.until(t, fmt.Sprintf("listener.%s.filter_panic: %d", at, rounds), "listener."+at+".downstream_cx_active: 0", fmt.Sprintf("listener.%s.downstream_cx_destroy: %d", at, rounds))
		if n := strings.Count(r.log.String(), "snare at "+at); n != rounds {
			t.Errorf("the log has %d panics at %s, want %d", n, at, rounds)
		}
		r.tellsOf(t, rounds, "listener="+at, "filter_chain=chain-"+at, "filter="+at, "networkpanic_test.go")
	}
	stillCalm(t, calm, &later)
	if n, want := closed.Load(), int64(rounds*len(places)); n != want {
		t.Errorf("the other filter of the chains was told of %d ends, want %d", n, want)
	}
}

// pit is a listener filter that panics at one place, and counts what is called
// after that.
type pit struct {
	at     string
	sprung bool
	later  *atomic.Int64
}

func (p *pit) step(name string) {
	if p.sprung {
		p.later.Add(1)
	}
	if p.at == name {
		p.sprung = true
		panic("pit at " + name)
	}
}

func (p *pit) OnAccept(*filter.Accepted) filter.ListenerStatus {
	p.step("accept")
	return filter.ListenerWait
}

func (p *pit) OnData(_ *filter.Accepted, peeked []byte) (filter.ListenerStatus, int) {
	p.step("data")
	switch p.at {
	case "too-much":
		return filter.ListenerContinue, len(peeked) + 1
	case "negative":
		return filter.ListenerContinue, -1
	}
	return filter.ListenerContinue, 0
}

// Partly proves OV-09: so does a listener filter that panics, or says that it
// has consumed what is not there.
func TestPanicsOfListenerFilters(t *testing.T) {
	const rounds = 5
	places := []string{"factory", "accept", "data", "too-much", "negative"}
	var later atomic.Int64
	kind := filter.ListenerType{Config: (*wrapperspb.StringValue)(nil), New: func(m proto.Message, _ *filter.Env) (filter.ListenerFactory, error) {
		v, _ := m.(*wrapperspb.StringValue)
		return func() filter.ListenerFilter {
			p := &pit{at: v.GetValue(), later: &later}
			p.step("factory")
			return p
		}, nil
	}}
	listeners := listen("calm", echoFilter)
	for _, at := range places {
		listeners += listen(at, echoFilter, "listener_filters: ["+probe(at)+"]")
	}
	r := start(t, bootstrapOf(listeners, ""), func(_ *proxyrun.Flags, o *proxy.Options) {
		o.Register = func(r *filter.Registry) error { return r.AddListener(kind) }
	})
	calm := r.dial(t, "calm")
	for _, at := range places {
		for range rounds {
			springs(t, r.at(at), at, nil)
		}
		r.until(t, fmt.Sprintf("listener.%s.filter_panic: %d", at, rounds), "listener."+at+".downstream_cx_active: 0",
			"listener."+at+".downstream_pre_cx_active: 0", "listener."+at+".downstream_cx_total: 0")
		r.tellsOf(t, rounds, "listener="+at, "filter="+at)
	}
	stillCalm(t, calm, &later)
}

// tellsOf expects in the log what belongs to each of so many panics.
func (r *running) tellsOf(t *testing.T, panics int, each ...string) {
	t.Helper()
	log := r.log.String()
	for _, want := range each {
		if strings.Count(log, want) < panics {
			t.Errorf("the log does not say %s for each panic", want)
		}
	}
}

// stillCalm expects that an echo is as before, and that nothing was asked of
// filters after their panic.
func stillCalm(t *testing.T, calm *net.TCPConn, later *atomic.Int64) {
	t.Helper()
	say(t, calm, "after")
	hear(t, calm, "after")
	if n := later.Load(); n > 0 {
		t.Errorf("filters were called %d times after their panic", n)
	}
}
