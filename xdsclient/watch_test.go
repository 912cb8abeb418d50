package xdsclient_test

import (
	"bytes"
	or "cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Proves XC-10, XC-11, GC-52: what is invalid is refused and the one before
// stays; what is valid in the same response is used; a good one ends the error.
func TestRejection(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		sc.watch(cdsType(), "z")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.expect("CDS [x y z] node", "CDS v=1 n=A [x y z]")
		sc.r.expect(t, "x=1", "y=1")
		st.answer(cds("2", "B", "x=bad", "y=2", "!z"))
		st.expect("CDS v=1 n=B error=2 problems in 3 resources: x: alt_stat_name: must not be bad; z: not a message [x y z]")
		sc.r.expect(t, "y=2", "x ~ rejected", "z: rejected")
		st.answer(cds("3", "C", "x=1", "y=2", "z=3"))
		st.expect("CDS v=3 n=C [x y z]")
		sc.r.expect(t, "z=3", "x ~ <nil>")
	})
}

// WholeResponses refuses everything in a response of which one part is invalid.
func TestWholeResponses(t *testing.T) {
	bubble(t, 1, xdsclient.Config{WholeResponses: true}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=bad", "y=1"))
		sc.r.expect(t, "x: rejected", "y: rejected")
	})
}

// Proves XC-34, GC-34: a late watcher is told the cached value, then the ambient
// error, and nothing is sent for it.
func TestLateWatcher(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1"))
		st.answer(cds("2", "B", "x=bad"))
		st.got()
		sc.r.take()
		sc.watch(cdsType(), "x")
		sc.r.expect(t, "x=1", "x ~ rejected")
		time.Sleep(time.Second)
		st.expect()
	})
}

// policyCase is a row of the table of gRFC A88: something happens to a resource
// that is cached or not, under a policy.
type policyCase struct {
	name         string
	policy       xdsclient.Policy
	event        func(st *fakeStream)
	held, absent string // what the watchers of the two are told
}

func resourceError(code codes.Code) func(st *fakeStream) {
	return func(st *fakeStream) {
		r := eds("2", "B")
		for _, name := range []string{"held", "absent"} {
			r.Errors = append(r.Errors, client.ResourceError{Name: name, Status: client.Status{Code: int32(code), Message: "because"}})
		}
		st.answer(r)
	}
}

func policyCases() []policyCase {
	keep, drop := xdsclient.Policy{KeepDeleted: true}, xdsclient.Policy{FailOnDataErrors: true}
	reject := func(st *fakeStream) { st.answer(eds("2", "B", "held=bad", "absent=bad")) }
	wait := func(*fakeStream) { time.Sleep(20 * time.Second) }
	long := func(*fakeStream) { time.Sleep(40 * time.Second) }
	cut := func(st *fakeStream) { st.end(io.EOF); time.Sleep(10 * time.Second) }
	list := []policyCase{
		{"rejected", xdsclient.Policy{}, reject, "held ~ rejected", "absent: rejected"},
		{"rejected", drop, reject, "held: rejected", "absent: rejected"},
		{"silence", xdsclient.Policy{}, wait, "", "absent: missing"},
		{"silence", drop, wait, "", "absent: missing"},
		{"silence", xdsclient.Policy{TimeoutIsTransient: true}, wait, "", ""},
		{"long silence", xdsclient.Policy{TimeoutIsTransient: true}, long, "", "absent: timeout"},
		{"the stream ends", drop, cut, "", ""},
	}
	for _, c := range []codes.Code{codes.NotFound, codes.PermissionDenied} {
		why := map[codes.Code]string{codes.NotFound: "missing", codes.PermissionDenied: "refused"}[c]
		for _, p := range []xdsclient.Policy{{}, keep} {
			list = append(list, policyCase{c.String(), p, resourceError(c), "held ~ " + why, "absent: " + why})
		}
		list = append(list, policyCase{c.String(), drop, resourceError(c), "held: " + why, "absent: " + why})
	}
	for _, c := range []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown, codes.DataLoss} {
		for _, p := range []xdsclient.Policy{{}, drop} {
			list = append(list, policyCase{c.String(), p, resourceError(c), "held ~ refused", "absent: refused"})
		}
	}
	return list
}

// stateAfter is the cache state that goes with what watchers were told.
func stateAfter(told string) string {
	name, what, _ := strings.Cut(strings.NewReplacer(": ", "|", " ~ ", "|~").Replace(told), "|")
	states := map[string]string{
		"rejected": "nacked", "~rejected": "nacked_but_cached", "missing": "does_not_exist", "refused": "received_error",
		"timeout": "timeout", "~missing": "acked", "~refused": "acked",
	}
	if name == "" {
		return ""
	}
	return states[what]
}

// Proves XC-33, XC-35, GC-67, GC-63, GC-64: what becomes of a cached resource and of
// one that is waited for, by what goes wrong and the policy.
func TestPolicy(t *testing.T) {
	for _, c := range policyCases() {
		t.Run(fmt.Sprintf("%s %+v", c.name, c.policy), func(t *testing.T) {
			bubble(t, 1, with(c.policy), func(sc *scene) {
				sc.watch(edsType(), "held")
				sc.watch(edsType(), "absent")
				st := sc.f[0].stream(1)
				st.answer(eds("1", "A", "held=1"))
				sc.r.expect(t, "held=1")
				c.event(st)
				var want []string
				for _, line := range []string{c.held, c.absent} {
					if line != "" {
						want = append(want, line)
					}
				}
				synctest.Wait()
				got := sc.r.take()
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				states := []string{or.Or(stateAfter(c.absent), "requested"), or.Or(stateAfter(c.held), "acked")}
				for i, r := range sc.s.Resources() {
					if r.State() != states[i] || r.Authority != "#old" {
						t.Errorf("%s of %q is %s, want %s", r.Name, r.Authority, r.State(), states[i])
					}
				}
			})
		})
	}
}

// Proves XC-36, GC-62: a deleted resource is dropped, or kept if the policy says
// so until it comes again.
func TestDeletion(t *testing.T) {
	for _, c := range []struct {
		policy        xdsclient.Policy
		deleted, back string
	}{
		{xdsclient.Policy{}, "x: missing", "x=1"},
		{xdsclient.Policy{KeepDeleted: true}, "x ~ missing", "x ~ <nil>"},
		{xdsclient.Policy{KeepDeleted: true, FailOnDataErrors: true}, "x: missing", "x=1"},
	} {
		for _, delta := range []bool{false, true} {
			cfg := with(c.policy)
			cfg.Delta = delta
			var log bytes.Buffer
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			bubble(t, 1, cfg, func(sc *scene) {
				sc.watch(cdsType(), "x")
				sc.watch(cdsType(), xdsclient.Wildcard)
				there, gone := cds("1", "A", "x=1"), cds("2", "B")
				if delta {
					there.Resources[0].Name, there.Resources[0].Version = "x", "1"
					gone.Removed = []string{"x"}
				}
				st := sc.f[0].stream(1)
				st.answer(there)
				sc.r.expect(t, "x=1", "x=1")
				st.answer(gone)
				sc.r.expect(t, c.deleted, c.deleted)
				st.answer(there)
				sc.r.expect(t, c.back, c.back)
			})
			want := 0
			if strings.Contains(c.deleted, "~") {
				want = 1
			}
			for _, line := range []string{`level=WARN msg="keeping a resource`, `level=INFO msg="a deleted resource is back"`} {
				if n := strings.Count(log.String(), line); n != want {
					t.Errorf("%+v: %d lines %q, want %d", c.policy, n, line, want)
				}
			}
		}
	}
}

// Proves GC-63: a resource that was dropped for an invalid version is delivered
// again when the server goes back to the one before.
func TestDroppedComesBack(t *testing.T) {
	bubble(t, 1, with(xdsclient.Policy{FailOnDataErrors: true}), func(sc *scene) {
		sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1"))
		st.answer(cds("2", "B", "x=bad"))
		st.answer(cds("3", "C", "x=1"))
		sc.r.expect(t, "x=1", "x: rejected", "x=1")
	})
}

// Partly proves XC-26: a wildcard hears of its first answer, though it is
// empty, and of every change of what it covers.
func TestWildcard(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		w := plainly(sc.r)
		w.Response = func(r xdsclient.Response) { sc.r.add("response %s from %s: %v", r.Version, r.Server, r.Err) }
		cancel := xdsclient.Watch(sc.s, cdsType(), xdsclient.Wildcard, xdsclient.Watcher[string](w))
		st := sc.f[0].stream(1)
		st.expect("CDS node")
		st.answer(cds("1", "A"))
		sc.r.expect(t, "response 1 from a: <nil>")
		st.answer(cds("2", "B", "x=1", "y=1"))
		sc.r.expect(t, "x=1", "y=1", "response 2 from a: <nil>")
		st.answer(cds("3", "C", "y=2"))
		sc.r.expect(t, "y=2", "x: missing", "response 3 from a: <nil>")
		late := newRecord()
		xdsclient.Watch(sc.s, cdsType(), xdsclient.Wildcard, plainly(late))
		late.expect(t, "y=2")
		cancel()
		st.answer(cds("4", "D", "y=3"))
		late.expect(t, "y=3")
		sc.r.expect(t)
	})
}

// Proves GC-54: callbacks watch and cancel, of the same and of other names, and
// come one at a time and in order.
func TestReentrantWatches(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		var inside, cancels int
		var cancelX func()
		watch := func(name string, then func()) func() {
			return xdsclient.Watch(sc.s, edsType(), name, xdsclient.Funcs[string]{Change: func(u xdsclient.Update[string]) {
				if inside++; inside != 1 {
					t.Error("two callbacks at once")
				}
				sc.r.add("%s=%s", u.Name, u.Value)
				then()
				inside--
			}})
		}
		cancelX = watch("x", func() {
			sc.watch(edsType(), "late")
			cancel := sc.watch(edsType(), "never")
			cancel()
			cancels++
			cancelX()
			watch("x", func() {})
		})
		watch("y", func() {})
		st := sc.f[0].stream(1)
		st.answer(eds("1", "A", "x=1", "y=1", "late=1"))
		sc.r.expect(t, "x=1", "y=1", "x=1")
		time.Sleep(20 * time.Millisecond)
		if got := st.got(); got[len(got)-1] != "EDS v=1 n=A [late x y]" {
			t.Errorf("requests %q", got)
		}
		st.answer(eds("2", "B", "late=2", "x=1", "y=1"))
		sc.r.expect(t, "late=2")
		if cancels != 1 {
			t.Errorf("cancelled watch was called %d times", cancels)
		}
	})
}

// Proves GC-55: bytes that are held are not decoded again.
func TestUnchangedIsNotDecoded(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		decodes := 0
		counted := cdsType()
		inner := counted.Decode
		counted.Decode = func(name string, body []byte) (string, error) { decodes++; return inner(name, body) }
		xdsclient.Watch(sc.s, counted, xdsclient.Wildcard, plainly(sc.r))
		var all []string
		for i := range 10_000 {
			all = append(all, fmt.Sprintf("c%d=1", i))
		}
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", all...))
		if decodes != 10_000 {
			t.Errorf("%d decodes of 10000 new resources", decodes)
		}
		sc.r.take()
		st.answer(cds("2", "B", all...))
		if decodes != 10_000 {
			t.Errorf("%d decodes of resources that did not change", decodes-10_000)
		}
		sc.r.expect(t)
	})
}

// Proves GC-56: while a watcher is busy nothing more is read.
func TestSlowWatcher(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		release := make(chan struct{})
		xdsclient.Watch(sc.s, cdsType(), "x", xdsclient.Funcs[string]{Change: func(u xdsclient.Update[string]) {
			sc.r.add("x=%s", u.Value)
			<-release
		}})
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1"))
		select {
		case st.responses <- reply{r: cds("2", "B", "x=2")}:
			t.Error("the next message was read while the watcher was busy")
		case <-time.After(time.Second):
		}
		st.expect("CDS [x] node", "CDS v=1 n=A [x]")
		close(release)
		st.answer(cds("2", "B", "x=2"))
		sc.r.expect(t, "x=1", "x=2")
	})
}

// Proves XC-30 of the transport: while answers wait for the rate limit, no more
// responses are read.
func TestRateLimitStopsReading(t *testing.T) {
	c := xdsclient.Config{RateLimit: &xdsclient.RateLimit{Burst: 2, PerSecond: 1}}
	bubble(t, 1, c, func(sc *scene) {
		sc.watch(cdsType(), "x")
		st := sc.f[0].stream(1)
		n := 0
		timeout := time.NewTimer(500 * time.Millisecond)
		for read := true; read; {
			select {
			case st.responses <- reply{r: cds(fmt.Sprint(n), fmt.Sprint("n", n), fmt.Sprint("x=", n))}:
				n++
				synctest.Wait()
			case <-timeout.C:
				read = false
			}
		}
		if n > 30 {
			t.Errorf("%d responses were read without an answer", n)
		}
		time.Sleep(5 * time.Second)
		if got := len(st.got()); got != 7 {
			t.Errorf("%d requests in 5.5 s at 1/s with a burst of 2", got)
		}
		st.answer(cds("last", "last", "x=last"))
	})
}

// Proves XC-38: a validator sees what a response would change, and its error
// refuses the response.
func TestValidators(t *testing.T) {
	atMost := func(_ string, changes []xdsclient.Candidate) error {
		for _, c := range changes {
			if c.Value == "huge" || c.Removed && c.Name == "x" {
				return fmt.Errorf("%s must stay small and here", c.Name)
			}
		}
		return nil
	}
	c := xdsclient.Config{Validators: map[string][]xdsclient.ResponseValidator{xds.ClusterType: {atMost}}}
	bubble(t, 1, c, func(sc *scene) {
		sc.watch(cdsType(), "x")
		sc.watch(cdsType(), "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.got()
		sc.r.take()
		st.answer(cds("2", "B", "x=huge", "y=2"))
		st.expect("CDS v=1 n=B error=validating the response: x must stay small and here [x y]")
		sc.r.expect(t, "x ~ rejected", "y ~ rejected")
		st.answer(cds("3", "C", "y=2"))
		st.expect("CDS v=1 n=C error=validating the response: x must stay small and here [x y]")
	})
}

// Partly proves XC-38: a type's own look at a response as a whole, after what it
// says of each resource.
func TestTypeValidatesAll(t *testing.T) {
	var seen []string
	typ := cdsType()
	typ.ValidateAll = func(version string, changes []xdsclient.Candidate) error {
		for _, c := range changes {
			seen = append(seen, fmt.Sprint(version, " ", c.Name, "=", c.Value, " ", c.Removed))
			if c.Value == "huge" {
				return errors.New("too much")
			}
		}
		return nil
	}
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		sc.watch(typ, "x")
		sc.watch(typ, "y")
		st := sc.f[0].stream(1)
		st.answer(cds("1", "A", "x=1", "y=1"))
		st.answer(cds("1", "B", "x=1", "y=1")) // changes nothing
		st.got()
		st.answer(cds("2", "C", "x=huge", "y=2"))
		st.expect("CDS v=1 n=C error=too much [x y]")
		st.answer(cds("3", "D", "y=2"))
		st.expect("CDS v=3 n=D [x y]")
	})
	want := []string{"1 x=1 false", "1 y=1 false", "2 x=huge false", "3 y=2 false", "3 x=<nil> true"}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
}

// Proves GC-65: whatever the server's code, an error looks UNAVAILABLE to gRPC.
// Proves GC-66: it names the resource, the reason, the server and the node.
func TestErrorTexts(t *testing.T) {
	var got []string
	texts := func(sc *scene) xdsclient.Funcs[string] {
		note := func(_ string, err error) {
			if c := status.Code(fmt.Errorf("while calling: %w", err)); c != codes.Unavailable {
				sc.t.Errorf("code %v", c)
			}
			got = append(got, err.Error())
		}
		return xdsclient.Funcs[string]{Error: note, AmbientError: note}
	}
	run := func(c xdsclient.Config, typ xdsclient.Type[string], name string, play func(st *fakeStream)) {
		bubble(t, 1, c, func(sc *scene) {
			xdsclient.Watch(sc.s, typ, name, texts(sc))
			if play != nil {
				play(sc.f[0].stream(1))
			}
			synctest.Wait()
		})
	}
	run(xdsclient.Config{}, cdsType(), "x", func(*fakeStream) { time.Sleep(16 * time.Second) })
	run(with(xdsclient.Policy{TimeoutIsTransient: true}), cdsType(), "x", func(*fakeStream) { time.Sleep(31 * time.Second) })
	run(xdsclient.Config{}, cdsType(), "x", func(st *fakeStream) { st.answer(cds("1", "A", "x=1")); st.answer(cds("2", "B")) })
	run(xdsclient.Config{}, cdsType(), "x", func(st *fakeStream) { st.answer(cds("1", "A", "x=bad")) })
	run(xdsclient.Config{}, edsType(), "absent", func(st *fakeStream) { resourceError(codes.PermissionDenied)(st) })
	run(xdsclient.Config{}, cdsType(), "x", func(st *fakeStream) { st.end(status.Error(codes.NotFound, "no such cluster")) })
	run(xdsclient.Config{}, cdsType(), "xdstp://other/envoy.config.cluster.v3.Cluster/x", nil)
	run(xdsclient.Config{Delta: true}, cdsType(), "x", func(st *fakeStream) {
		r := cds("", "A", "x=1")
		r.Resources[0].Name, r.Resources[0].Version, r.Resources[0].TTL = "x", "1", time.Second
		st.answer(r)
		time.Sleep(2 * time.Second)
	})
	want := []string{
		`Cluster "x": the resource does not exist: not sent within 15s (server "a", node "test-node")`,
		`Cluster "x": the server did not answer in time: not sent within 30s (server "a", node "test-node")`,
		`Cluster "x": the resource does not exist: the server's last response no longer holds it (server "a", node "test-node")`,
		`Cluster "x": the resource is not valid: alt_stat_name: must not be bad (server "a", node "test-node")`,
		`ClusterLoadAssignment "absent": the server does not send the resource: because (server "a", node "test-node")`,
		`Cluster "x": the server cannot be reached: reading from the stream: rpc error: code = NotFound desc = no such cluster (server "a", node "test-node")`,
		`Cluster "xdstp://other/envoy.config.cluster.v3.Cluster/x": the watch cannot be served: nobody is configured for the authority "other": add it to Authorities`,
		`Cluster "x": the resource's time to live is over (server "a", node "test-node")`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What cannot be watched is an error at once, and nothing is opened for it.
func TestMisuse(t *testing.T) {
	for want, watch := range map[string]func(sc *scene){
		"delta variant only": func(sc *scene) { sc.watch(plain(xds.VirtualHostType), "r/h") },
		"glob collections":   func(sc *scene) { sc.watch(edsType(), "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/*") },
		"name is empty":      func(sc *scene) { sc.watch(cdsType(), "") },
		"has no URL":         func(sc *scene) { sc.watch(xdsclient.Type[string]{}, "x") },
		"as string before": func(sc *scene) {
			cancel := xdsclient.Watch(sc.s, cdsType(), "x", xdsclient.Funcs[string]{})
			synctest.Wait()
			xdsclient.Watch(sc.s, xdsclient.Clusters(), "x", clusters(sc.r))
			cancel()
		},
	} {
		bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
			watch(sc)
			synctest.Wait()
			if lines := sc.r.take(); len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("callbacks %q, want one with %q", lines, want)
			}
		})
	}
}

// A configuration that cannot work is refused with the field's name.
func TestConfig(t *testing.T) {
	f := &fake{t: t}
	for want, c := range map[string]xdsclient.Config{
		"Servers is empty":     {},
		"Servers[0] has no na": {Servers: []xdsclient.Server{{Transport: f}}},
		"has no transport":     {Servers: []xdsclient.Server{{Name: "a"}}},
		"listed twice":         {Servers: []xdsclient.Server{to("a", f), to("a", f)}},
		`Authorities["z"]`:     {Servers: []xdsclient.Server{to("a", f)}, Authorities: map[string]xdsclient.Authority{"z": {Servers: []xdsclient.Server{{}}}}},
		"Backoff":              {Servers: []xdsclient.Server{to("a", f)}, Backoff: xdsclient.Backoff{Base: time.Second}},
	} {
		_, err := xdsclient.NewSource(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if errors.Is(nil, xdsclient.ErrMissing) {
		t.Error("nil is no error")
	}
}

// A transient value is told to the watchers that there are, and made again for
// those that come later or wait for a repetition; what it is does not matter to
// anybody else.
func TestTransient(t *testing.T) {
	bubble(t, 1, xdsclient.Config{}, func(sc *scene) {
		decodes, validated := 0, 0
		brief := edsType()
		brief.Transient = true
		inner := brief.Decode
		brief.Decode = func(name string, body []byte) (string, error) { decodes++; return inner(name, body) }
		brief.Validate = func(string, string, string) error { validated++; return nil }
		expect := func(d, v int) {
			t.Helper()
			synctest.Wait()
			if decodes != d || validated != v {
				t.Errorf("%d times decoded, %d times validated; want %d and %d", decodes, validated, d, v)
			}
		}
		sc.watch(brief, "x")
		sc.watch(brief, "x")
		st := sc.f[0].stream(1)
		st.answer(eds("1", "A", "x=1"))
		sc.r.expect(t, "x=1", "x=1")
		expect(1, 1)
		sc.watch(brief, "x")
		sc.r.expect(t, "x=1")
		expect(2, 1)
		st.answer(eds("2", "B", "x=1"))
		sc.r.expect(t)
		expect(2, 1)
		sc.s.Await(xds.EndpointType, "x")
		synctest.Wait()
		st.answer(eds("3", "C", "x=1"))
		sc.r.expect(t, "x=1", "x=1", "x=1")
		expect(3, 1)
		st.answer(eds("4", "D", "x=2"))
		sc.r.expect(t, "x=2", "x=2", "x=2")
		expect(4, 2)
	})
}
