package reporting_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xdsserver/internal/reporting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func terms() reporting.Terms {
	return reporting.Terms{Server: "test server", Stream: "test", Kept: "tests", Purpose: "test"}
}

type state struct{ entered int }

func enter(s *state) { s.entered++ }

func TestRosterRemembersForTheRetentionTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reporting.NewRoster(terms(), reporting.Capacity{Streams: 9, Nodes: 9, Retention: time.Minute},
			func() *state { return &state{} })
		join := func(id, cluster string) *reporting.Member[state] {
			m, err := r.Join(reporting.Key{ID: id, Cluster: cluster}, enter)
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		check := func(when string, want ...reporting.Found[state]) {
			t.Helper()
			if got := r.All(); !slices.Equal(got, want) {
				t.Errorf("%s: %+v, want %+v", when, got, want)
			}
		}
		b, a2, a1 := join("b", "x"), join("a", "2"), join("a", "1")
		again := join("b", "x")
		foundA1 := reporting.Found[state]{Key: a1.Key, State: a1.State, Streams: 1}
		foundA2 := reporting.Found[state]{Key: a2.Key, State: a2.State, Streams: 1}
		foundB := reporting.Found[state]{Key: b.Key, State: b.State, Streams: 2}
		check("sorted", foundA1, foundA2, foundB)
		if again.State != b.State || b.State.entered != 2 {
			t.Errorf("the second stream of a node has a state of its own, or did not enter: %+v", b.State)
		}
		if got := r.ByID("a"); !slices.Equal(got, []reporting.Found[state]{foundA1, foundA2}) {
			t.Errorf("by ID: %+v", got)
		}
		r.Leave(b)
		foundB.Streams = 1
		time.Sleep(time.Hour)
		check("a stream is left", foundA1, foundA2, foundB)
		r.Leave(again)
		foundB.Streams = 0
		time.Sleep(time.Minute - time.Nanosecond)
		check("gone for less than the retention time", foundA1, foundA2, foundB)
		time.Sleep(time.Nanosecond)
		check("gone for the retention time", foundA1, foundA2)
	})
}

func TestRosterIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reporting.NewRoster(terms(), reporting.Capacity{Streams: 2, Nodes: 1, Retention: time.Minute},
			func() *state { return &state{} })
		one, two := reporting.Key{ID: "one"}, reporting.Key{ID: "two"}
		refused := func(k reporting.Key, want string) {
			t.Helper()
			_, err := r.Join(k, func(*state) { t.Error("a refused stream entered") })
			if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want RESOURCE_EXHAUSTED that says %q", err, want)
			}
		}
		first, err := r.Join(one, enter)
		if err != nil {
			t.Fatal(err)
		}
		refused(two, "the tests of 1 nodes are remembered")
		second, err := r.Join(one, enter)
		if err != nil {
			t.Fatal(err)
		}
		refused(one, "2 test streams are open")
		r.Leave(first)
		r.Leave(second)
		refused(two, "the tests of 1 nodes are remembered")
		time.Sleep(time.Minute)
		if _, err := r.Join(two, enter); err != nil {
			t.Errorf("the first node was not forgotten: %v", err)
		}
	})
}

func TestSubscribersHearUntilTheyCancel(t *testing.T) {
	var s reporting.Subscribers[int]
	s.Deliver(func() int { t.Error("a report was built for nobody"); return 0 })
	var a, b []int
	cancelA := s.Add(func(n int) { a = append(a, n) })
	cancelB := s.Add(func(n int) { b = append(b, n) })
	s.Deliver(func() int { return 1 })
	cancelA()
	s.Deliver(func() int { return 2 })
	cancelB()
	s.Deliver(func() int { t.Error("a report was built for nobody"); return 0 })
	if !slices.Equal(a, []int{1}) || !slices.Equal(b, []int{1, 2}) {
		t.Errorf("heard %v and %v", a, b)
	}
}

func TestAddress(t *testing.T) {
	socket := func(s *corev3.SocketAddress) *corev3.Address {
		return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: s}}
	}
	internal := &corev3.EnvoyInternalAddress{
		AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: "l"}, EndpointId: "e",
	}
	for want, p := range map[string]*corev3.Address{
		"[::1]:80": socket(&corev3.SocketAddress{Address: "::1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}),
		"h:http":   socket(&corev3.SocketAddress{Address: "h", PortSpecifier: &corev3.SocketAddress_NamedPort{NamedPort: "http"}}),
		"/a/pipe":  {Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/a/pipe"}}},
		"envoy_internal:l/e": {
			Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: internal},
		},
	} {
		if got, err := reporting.Address(p); got != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	for _, p := range []*corev3.Address{nil, {}} {
		if got, err := reporting.Address(p); err == nil || !strings.HasPrefix(err.Error(), "address is empty") {
			t.Errorf("no address: %q, %v", got, err)
		}
	}
}

func TestLimitsOrDefaults(t *testing.T) {
	unset, set := 0, 7
	err := reporting.LimitsOrDefaults(
		reporting.Limit{Name: "Unset", Value: &unset, Default: 5}, reporting.Limit{Name: "Set", Value: &set, Default: 5})
	if err != nil || unset != 5 || set != 7 {
		t.Errorf("%v, %d, %d; want 5 and 7", err, unset, set)
	}
	bad := -1
	err = reporting.LimitsOrDefaults(reporting.Limit{Name: "Bad", Value: &bad, Default: 5})
	if want := "limit Bad -1 is negative; use 0 for the default of 5"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// scripted is a stream that sends what it is handed.
type scripted struct {
	ctx      context.Context //nolint:containedctx // As a gRPC stream does.
	messages chan *int
}

func (s scripted) Context() context.Context { return s.ctx }

func (s scripted) Recv() (*int, error) {
	select {
	case m, ok := <-s.messages:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func TestStreamsEnd(t *testing.T) {
	refused := errors.New("refused")
	for name, c := range map[string]struct {
		end  func(messages chan *int, gate *reporting.Gate, cancel context.CancelFunc)
		want codes.Code
	}{
		"half-closed": {func(m chan *int, _ *reporting.Gate, _ context.CancelFunc) { close(m) }, codes.OK},
		"cancelled":   {func(_ chan *int, _ *reporting.Gate, cancel context.CancelFunc) { cancel() }, codes.Canceled},
		"shut down":   {func(_ chan *int, g *reporting.Gate, _ context.CancelFunc) { g.Close(); g.Close() }, codes.Unavailable},
	} {
		for _, begun := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, begun %t", name, begun), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					gate := reporting.NewGate(terms(), nil, slog.New(slog.DiscardHandler))
					stream := scripted{ctx, make(chan *int)}
					in := reporting.Receive(stream, gate)
					go func() {
						if begun {
							stream.messages <- new(int)
						}
						synctest.Wait()
						c.end(stream.messages, gate, cancel)
					}()
					_, ok, err := in.First()
					if ok != begun {
						t.Fatalf("first message: %t, %v", ok, err)
					}
					if begun {
						err = in.Serve(func() (<-chan struct{}, error) { return nil, nil }, func(*int) error { return refused })
					}
					if status.Code(err) != c.want {
						t.Errorf("the stream ended with %v, want %v", err, c.want)
					}
				})
			})
		}
	}
}

// A stream tells first, again at each change, and ends when it refuses.
func TestServeTellsAndTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := scripted{ctx, make(chan *int)}
		in := reporting.Receive(stream, reporting.NewGate(terms(), nil, slog.New(slog.DiscardHandler)))
		change, refused := make(chan struct{}), errors.New("refused")
		var heard []string
		go func() {
			synctest.Wait()
			stream.messages <- new(int)
			synctest.Wait()
			close(change)
			synctest.Wait()
			stream.messages <- nil
		}()
		err := in.Serve(func() (<-chan struct{}, error) {
			heard = append(heard, "told")
			if len(heard) > 1 {
				return nil, nil
			}
			return change, nil
		}, func(m *int) error {
			heard = append(heard, "took")
			if m == nil {
				return refused
			}
			return nil
		})
		if !errors.Is(err, refused) || !slices.Equal(heard, []string{"told", "took", "told", "took"}) {
			t.Errorf("%v after %v", err, heard)
		}
		in = reporting.Receive(stream, reporting.NewGate(terms(), nil, slog.New(slog.DiscardHandler)))
		err = in.Serve(func() (<-chan struct{}, error) { return nil, refused }, nil)
		if !errors.Is(err, refused) {
			t.Errorf("a failure to tell ended the stream with %v", err)
		}
	})
}
