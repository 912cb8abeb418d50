package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

var begin = time.Unix(1000, 0)

// respond lets the channel take a response to resources of the form "name version".
func respond(ch *client.Channel, t xds.Type, nonce string, words ...string) client.Outcome {
	r := &client.Response{TypeURL: t.URL, Version: "v" + nonce, Nonce: nonce}
	for _, w := range words {
		r.Resources = append(r.Resources, client.Raw{TypeURL: t.URL, Body: []byte(w), HasBody: true})
	}
	return ch.Receive(begin, r)
}

// TestThousandResponses reads a thousand responses before the sender has time
// for any answer: each is answered once, in its order.
// Proves XC-08, GC-38.
func TestThousandResponses(t *testing.T) {
	ch := client.New(client.Config{Checker: &checker{}, Limit: &client.Limit{Burst: 1, PerSecond: 1000}})
	eds, cds := benchType("EDS"), benchType("CDS")
	ch.Subscribe(eds, "a")
	ch.Subscribe(cds, "a")
	now := begin
	ch.Open(now)
	for n := 0; n < 2; {
		if ch.Next(now) != nil {
			n++
		}
		now = now.Add(time.Millisecond)
	}
	for i := range 1000 {
		typ, word := eds, "a 1"
		if i%3 == 0 {
			typ = cds
		}
		if i%5 == 0 {
			word = "a bad"
		}
		respond(ch, typ, fmt.Sprint(i), word)
	}
	for i := 0; i < 1000; now = now.Add(time.Millisecond) {
		r := ch.Next(now)
		if r == nil {
			continue
		}
		if r.Nonce != fmt.Sprint(i) || (r.Error != "") != (i%5 == 0) || (r.TypeURL == cds.URL) != (i%3 == 0) || !r.Answer {
			t.Fatalf("answer %d is %+v", i, r)
		}
		i++
	}
	if r := ch.Next(now.Add(time.Hour)); r != nil {
		t.Fatalf("one answer too many: %+v", r)
	}
}

// TestRejectionText names every bad resource, however long the reasons are, and
// is never longer than 4 KiB.
// Proves XC-09, GC-53.
func TestRejectionText(t *testing.T) {
	for _, tc := range []struct {
		resources, reason int
		all               bool
	}{{1, 10, true}, {1, 10_000, true}, {100, 5, true}, {100, 1000, true}, {2000, 100, false}} {
		ch := client.New(client.Config{Checker: &checker{}})
		eds := benchType("EDS")
		ch.Subscribe(eds, "*")
		ch.Open(begin)
		ch.Next(begin)
		var words []string
		for i := range tc.resources {
			words = append(words, fmt.Sprintf("name-%d bad%s", i, strings.Repeat("ü", tc.reason)))
		}
		out := respond(ch, eds, "n", words...)
		r := ch.Next(begin)
		if len(r.Error) > 4096 || !utf8.ValidString(r.Error) {
			t.Errorf("%+v: a text of %d bytes, valid %v", tc, len(r.Error), utf8.ValidString(r.Error))
		}
		if out.Err == nil || out.Err.Error() != r.Error {
			t.Errorf("%+v: the outcome says %v, the NACK %q", tc, out.Err, r.Error)
		}
		for i := 0; tc.all && i < tc.resources; i++ {
			if !strings.Contains(r.Error, fmt.Sprintf("name-%d: bad", i)) {
				t.Errorf("%+v: name-%d is not named in %q", tc, i, r.Error)
			}
		}
		rej, ok := errors.AsType[*client.Rejection](out.Err)
		if !ok || len(rej.Problems) != tc.resources || rej.Resources != tc.resources {
			t.Errorf("%+v: %d problems", tc, len(rej.Problems))
		}
	}
}

// TestResubscribe gives up a name and takes it up again ten thousand times in
// front of a server that sends nothing that it thinks the client holds, with the
// requests and responses in every phase of each other: in the end the resource
// is there, and at no time is it reported missing.
// Proves GC-37, XC-22.
func TestResubscribe(t *testing.T) {
	for _, delta := range []bool{false, true} {
		t.Run(variant(delta), func(t *testing.T) { resubscribe(t, delta) })
	}
}

func resubscribe(t *testing.T, delta bool) {
	cfg := wire.Config{Variant: wire.Sotw}
	if delta {
		cfg.Variant = wire.Delta
	}
	eds := benchType("EDS")
	res := xds.NewResource(eds.URL, "a", []byte("a 1"), xds.WithVersion("1"))
	other := xds.NewResource(eds.URL, "b", []byte("b 1"), xds.WithVersion("1"))
	snap, _, err := snapshot.New().With(snapshot.Changes{Set: []*xds.Resource{res, other}})
	if err != nil {
		t.Fatal(err)
	}
	server := wire.NewStream(cfg)
	server.Publish(snap)
	ch := client.New(client.Config{Delta: delta, Checker: &checker{}})
	ch.Subscribe(eds, "b")
	ch.Open(begin)
	p := &pipe{server: server, ch: ch, delta: delta}
	for i := range 10_000 {
		ch.Subscribe(eds, "a")
		p.step(t, i)
		if i%8 == 7 {
			p.rest(t)
		}
		ch.Unsubscribe(eds.URL, "a")
		p.step(t, i>>4)
		if i%10 == 0 {
			next := xds.NewResource(eds.URL, "b", fmt.Append(nil, "b ", i), xds.WithVersion(fmt.Sprint(i)))
			snap2, changes, err := snap.With(snapshot.Changes{Set: []*xds.Resource{next}})
			if err != nil {
				t.Fatal(err)
			}
			snap = snap2
			server.Publish(snap, changes)
		}
	}
	ch.Subscribe(eds, "a")
	p.rest(t)
}

// pipe carries messages between a channel and the server's machine.
type pipe struct {
	server *wire.Stream
	ch     *client.Channel
	delta  bool
	up     []*client.Request
}

// rest lets everything arrive: then the resource is held, and nothing is waited for.
func (p *pipe) rest(t *testing.T) {
	t.Helper()
	for range 5 {
		p.step(t, 7)
	}
	if st, ok := p.ch.Resource(benchType("EDS").URL, "a"); !ok || !st.Held {
		t.Fatalf("the resource is %+v", st)
	}
	if d, ok := p.ch.Deadline(); ok {
		t.Fatalf("something is waited for until %v", d)
	}
}

// step does what the bits of phase say: send, let the server read, receive.
func (p *pipe) step(t *testing.T, phase int) {
	t.Helper()
	if phase&1 != 0 {
		for r := p.ch.Next(begin); r != nil; r = p.ch.Next(begin) {
			p.up = append(p.up, r)
		}
	}
	if phase&2 != 0 {
		for _, r := range p.up {
			wr := toServer(r)
			if _, err := p.server.Request(begin, wr); err != nil {
				t.Fatal(err)
			}
		}
		p.up = nil
	}
	if phase&4 == 0 {
		return
	}
	for w := p.server.Next(begin); w != nil; w = p.server.Next(begin) {
		r := &client.Response{TypeURL: w.TypeURL, Version: w.Version, Nonce: w.Nonce, Removed: w.Removed}
		for _, res := range w.Resources {
			raw := client.Raw{TypeURL: w.TypeURL, Body: res.Body(), HasBody: true}
			if p.delta {
				raw.Name, raw.Version = res.Name(), res.Version()
			}
			r.Resources = append(r.Resources, raw)
		}
		for _, e := range p.ch.Receive(begin, r).Events {
			if e.Kind == client.Missing {
				t.Fatalf("%s is missing", e.Name)
			}
		}
	}
}

// TestCanonicalNames subscribes to a name whose parameters are in another order
// than the server writes them.
func TestCanonicalNames(t *testing.T) {
	const asked = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x?b=1&a=2"
	const sent = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x?a=2&b=1"
	ch := client.New(client.Config{Checker: &checker{}})
	eds := benchType("EDS")
	ch.Subscribe(eds, asked)
	ch.Subscribe(eds, sent)
	ch.Open(begin)
	if r := ch.Next(begin); len(r.Names) != 1 || r.Names[0] != sent {
		t.Errorf("names %v", r.Names)
	}
	if out := respond(ch, eds, "n", asked+" 1"); len(out.Events) != 1 || out.Events[0].Name != sent {
		t.Errorf("events %+v", out.Events)
	}
	if _, ok := ch.Resource(eds.URL, asked); !ok {
		t.Error("not found by the name asked for")
	}
}

// TestMissingTogether lets the timers of many names run out at once: they are
// told in the order of their requests.
// Proves XC-17.
func TestMissingTogether(t *testing.T) {
	ch := client.New(client.Config{Checker: &checker{}})
	eds := benchType("EDS")
	ch.Open(begin)
	for i := range 500 {
		ch.Subscribe(eds, benchName(i))
	}
	ch.Next(begin)
	if d, ok := ch.Deadline(); !ok || !d.Equal(begin.Add(15*time.Second)) {
		t.Fatalf("deadline %v, %v", d, ok)
	}
	if got := ch.Expire(begin.Add(15*time.Second - 1)); got != nil {
		t.Fatalf("too early: %v", got)
	}
	got := ch.Expire(begin.Add(15 * time.Second))
	if len(got) != 1 || got[0].TypeURL != eds.URL || len(got[0].Events) != 500 {
		t.Fatalf("%d types", len(got))
	}
	if _, ok := ch.Deadline(); ok {
		t.Fatal("there is a deadline")
	}
}

// TestChurn subscribes to ever new names and gives them up, while the sender has
// no time, while there is no stream, and while a stream is there: nothing stays.
func TestChurn(t *testing.T) {
	for _, delta := range []bool{false, true} {
		ch := client.New(client.Config{Delta: delta, Checker: &checker{}})
		eds := benchType("EDS")
		ch.Subscribe(eds, "stays")
		churn := func(when string, each func()) {
			most := 0
			for i := range 5000 {
				ch.Subscribe(eds, benchName(i))
				ch.Unsubscribe(eds.URL, benchName(i))
				each()
				most = max(most, ch.Names())
			}
			if most > 200 {
				t.Errorf("%s, delta %v: %d names are known", when, delta, most)
			}
		}
		churn("closed", func() {})
		ch.Open(begin)
		ch.Next(begin)
		churn("open", func() {})
		churn("sending", func() { ch.Next(begin) })
		if r := ch.Next(begin); r != nil {
			t.Errorf("something is due: %+v", r)
		}
		if n := ch.Names(); n != 1 {
			t.Errorf("%d names are left", n)
		}
	}
}

// TestMemory holds many resources and measures what that costs beside their
// names and bodies.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory")
	}
	const n = 20_000
	eds := benchType("EDS")
	r := &client.Response{TypeURL: eds.URL, Nonce: "1"}
	names := make([]string, n)
	for i := range n {
		names[i] = benchName(i)
		r.Resources = append(r.Resources, client.Raw{Name: names[i], Version: "1", TypeURL: eds.URL, Body: []byte(names[i]), HasBody: true})
	}
	before := heap()
	ch := client.New(client.Config{Delta: true, Checker: &blind{}})
	for _, name := range names {
		ch.Subscribe(eds, name)
	}
	ch.Open(begin)
	ch.Next(begin)
	ch.Receive(begin, r)
	ch.Next(begin)
	each := int(heap()-before) / n
	t.Logf("%d bytes for each resource, an entry has %d", each, client.EntrySize)
	if each > 200 {
		t.Errorf("%d bytes for each resource", each)
	}
	runtime.KeepAlive(ch)
	runtime.KeepAlive(r)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestBuffers checks that what is held does not point into a response, so that
// its buffer can be freed, and that there is one copy of it.
func TestBuffers(t *testing.T) {
	cds := benchType("CDS")
	ch, _, _ := loaded(t, cds, true, 1)
	raw := benchRaw(cds, 0, 0, true)
	ch.Receive(begin, &client.Response{TypeURL: cds.URL, Nonce: "2", Resources: []client.Raw{raw}})
	st, _ := ch.Resource(cds.URL, benchName(0))
	if &st.Body[0] == &raw.Body[0] {
		t.Error("the buffer of a response that changes nothing is kept")
	}
	raw = benchRaw(cds, 0, 7, true)
	out := ch.Receive(begin, &client.Response{TypeURL: cds.URL, Nonce: "3", Resources: []client.Raw{raw}})
	st, _ = ch.Resource(cds.URL, benchName(0))
	if &st.Body[0] == &raw.Body[0] || len(out.Events) != 1 || &out.Events[0].Body[0] != &st.Body[0] || !bytes.Equal(st.Body, raw.Body) {
		t.Errorf("a changed resource is held as %x, told as %+v", st.Body, out.Events)
	}
}

// TestUnchangedAllocates checks that an unchanged full state costs no memory for
// each resource, except what the Checker takes for the names.
// Proves GC-55.
func TestUnchangedAllocates(t *testing.T) {
	cds := benchType("CDS")
	ch, b, full := loaded(t, cds, true, benchSize)
	checks := b.checks
	allocs := testing.AllocsPerRun(20, func() {
		if out := ch.Receive(begin, full); out.Err != nil || len(out.Events) > 0 {
			t.Fatalf("%+v", out)
		}
		ch.Next(begin)
	})
	if allocs > 5 || b.checks != checks {
		t.Errorf("%v allocations, %d decoded", allocs, b.checks-checks)
	}
}

// What is held without a version, as another server has sent it, is among what a
// new stream says is held: otherwise nobody would ever say that it is gone.
// Partly proves XC-07.
func TestHeldWithoutVersion(t *testing.T) {
	cds := benchType("CDS")
	ch := client.New(client.Config{Delta: true, Checker: &checker{}})
	ch.Subscribe(cds, "*")
	ch.Open(begin)
	ch.Next(begin)
	raw := client.Raw{Name: "a", TypeURL: cds.URL, Body: []byte("a 1"), HasBody: true}
	if out := ch.Receive(begin, &client.Response{TypeURL: cds.URL, Nonce: "1", Resources: []client.Raw{raw}}); out.Err != nil {
		t.Fatal(out.Err)
	}
	ch.Closed(begin)
	ch.Open(begin)
	if r := ch.Next(begin); r == nil || !maps.Equal(r.Held, map[string]string{"a": ""}) {
		t.Errorf("the new stream's first request is %+v", r)
	}
}
