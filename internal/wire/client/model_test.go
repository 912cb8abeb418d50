package client_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// oracle is a server that says anything, and a plain reading of what it has
// said: for each name the body that a client holds. Names are subscribed to
// before the stream opens and stay, so that only responses and time change it.
type oracle struct {
	t     *rapid.T
	cfg   client.Config
	ch    *client.Channel
	typ   xds.Type
	names []string
	wild  bool
	now   time.Time
	nonce int

	held map[string]word
	told map[string]string // by events
}

type word struct {
	body, version string
	until         time.Time
}

func (o *oracle) wants(name string) bool { return o.wild || slices.Contains(o.names, name) }

func (o *oracle) run() {
	o.ch = client.New(o.cfg)
	for _, n := range o.names {
		o.ch.Subscribe(o.typ, n)
	}
	if o.wild {
		o.ch.Subscribe(o.typ, "*")
	}
	o.open()
	o.t.Repeat(map[string]func(*rapid.T){
		"":         func(*rapid.T) { o.check() },
		"response": o.response,
		"wait":     o.wait,
		"reopen": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "really") == 0 {
				o.ch.Closed(o.now)
				o.open()
			}
		},
	})
}

func (o *oracle) open() {
	o.ch.Open(o.now)
	r := o.ch.Next(o.now)
	if r == nil || !r.WithNode || o.ch.Next(o.now) != nil {
		o.t.Fatalf("a stream begins with one request for a type, not %+v", r)
	}
	if !o.cfg.Delta {
		return
	}
	want := map[string]string{}
	for n, w := range o.held {
		want[n] = w.version
	}
	if !maps.Equal(r.Held, want) {
		o.t.Fatalf("held in the first request: %v, want %v", r.Held, want) // XC-07
	}
}

func (o *oracle) wait(t *rapid.T) {
	o.now = o.now.Add(time.Duration(rapid.IntRange(1, 8).Draw(t, "seconds")) * time.Second)
	var expired []string
	for n, w := range o.held {
		if !w.until.IsZero() && !w.until.After(o.now) {
			expired = append(expired, n)
			delete(o.held, n)
		}
	}
	for _, te := range o.ch.Expire(o.now) {
		for _, e := range te.Events {
			if e.Kind == client.Expired {
				expired = slices.DeleteFunc(expired, func(n string) bool { return n == e.Name })
			} else if _, ok := o.held[e.Name]; ok {
				o.t.Fatalf("%s is missing, but it is held", e.Name) // XC-18
			}
			o.tell(e)
		}
	}
	if len(expired) > 0 {
		o.t.Fatalf("not expired: %v", expired) // XT-04
	}
}

func (o *oracle) tell(e client.Event) {
	switch e.Kind {
	case client.Changed:
		if o.told[e.Name] == string(e.Body) {
			o.t.Fatalf("%s is told to have changed to what it was", e.Name) // GC-55
		}
		o.told[e.Name] = string(e.Body)
	case client.Missing, client.Expired:
		delete(o.told, e.Name)
	}
}

// response draws a response, reads it plainly, and hands it to the channel.
func (o *oracle) response(t *rapid.T) {
	o.nonce++
	r := &client.Response{TypeURL: o.typ.URL, Version: fmt.Sprint("v", o.nonce), Nonce: fmt.Sprint(o.nonce)}
	count := map[string]int{}
	pool := []string{"a", "b", "c", "d"}
	names := rapid.SliceOfN(rapid.SampledFrom(pool), 0, 4).Draw(t, "resources")
	for _, n := range names {
		count[n]++
		raw := client.Raw{
			Name: n, TypeURL: o.typ.URL, HasBody: true,
			Version: rapid.SampledFrom([]string{"1", "2", "bad"}).Draw(t, "version"),
			TTL:     time.Duration(rapid.SampledFrom([]int{0, 0, 5, 9}).Draw(t, "ttl")) * time.Second,
		}
		raw.Body = []byte(n + " " + raw.Version)
		if rapid.IntRange(0, 3).Draw(t, "bodiless") == 0 {
			raw.HasBody, raw.Body, raw.TypeURL = false, nil, ""
		}
		r.Resources = append(r.Resources, raw)
	}
	if o.cfg.Delta {
		r.Removed = rapid.SliceOfN(rapid.SampledFrom(pool), 0, 2).Draw(t, "removed")
		for _, n := range r.Removed {
			count[n]++
		}
	}
	bad := o.read(r, count)
	o.t.Logf("response %+v: bad %v", r, bad)
	out := o.ch.Receive(o.now, r)
	if (out.Err != nil) != (len(bad) > 0) {
		o.t.Fatalf("rejected with %v, bad are %v", out.Err, bad)
	}
	for _, e := range out.Events {
		o.tell(e)
	}
	req := o.ch.Next(o.now)
	if req == nil || !req.Answer || req.Nonce != r.Nonce || (req.Error == "") != (len(bad) == 0) || o.ch.Next(o.now) != nil {
		o.t.Fatalf("the answer is %+v", req) // XC-08
	}
	for _, n := range bad {
		if !strings.Contains(req.Error, n+": ") {
			o.t.Fatalf("%q does not name %s", req.Error, n) // GC-53
		}
	}
}

// read applies a response to the plain state, and returns what is bad in it.
func (o *oracle) read(r *client.Response, count map[string]int) (bad []string) {
	for n, times := range count {
		if times > 1 && o.wants(n) {
			bad = append(bad, n)
		}
	}
	for _, raw := range r.Resources {
		n := raw.Name
		if count[n] > 1 || !o.wants(n) {
			continue
		}
		old, held := o.held[n]
		switch {
		case !raw.HasBody && held && old.version == raw.Version:
			o.held[n] = o.word(old.body, old.version, raw.TTL)
		case !raw.HasBody:
			delete(o.held, n)
		case raw.Version == "bad":
			bad = append(bad, n)
		default:
			o.held[n] = o.word(string(raw.Body), raw.Version, raw.TTL)
		}
	}
	for _, n := range r.Removed {
		if count[n] == 1 {
			delete(o.held, n)
		}
	}
	if !o.cfg.Delta && o.typ.FullState {
		maps.DeleteFunc(o.held, func(n string, _ word) bool { return count[n] == 0 })
	}
	return bad
}

func (o *oracle) word(body, version string, ttl time.Duration) word {
	w := word{body: body, version: version}
	if ttl > 0 {
		w.until = o.now.Add(ttl)
	}
	return w
}

func (o *oracle) check() {
	if err := o.ch.Verify(); err != nil {
		o.t.Fatal(err)
	}
	got, want := map[string]string{}, map[string]string{}
	for st := range o.ch.Resources(o.typ.URL) {
		if st.Held {
			got[st.Name] = string(st.Body)
		}
	}
	for n, w := range o.held {
		want[n] = w.body
	}
	if !maps.Equal(got, want) {
		o.t.Fatalf("the channel holds %v, the server has said %v", got, want)
	}
	if !maps.Equal(o.told, want) {
		o.t.Fatalf("the events say %v, the server has said %v", o.told, want)
	}
}

// TestOracle plays a channel against a server that says anything: after every
// response and every second it holds what a plain reading says, its events have
// said the same, and each response gets one answer, which names what is bad.
// Proves XC-08, XC-11, XC-12, XC-14, XC-20, XC-21, XT-03, XT-04, XT-05, XT-10, GC-38, GC-44, GC-52, GC-53, GC-55, GC-76.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &oracle{
			t: t, now: time.Unix(1000, 0), held: map[string]word{}, told: map[string]string{},
			cfg:   client.Config{Delta: rapid.Bool().Draw(t, "delta"), Checker: &checker{}},
			names: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID[string]).Draw(t, "names"),
			wild:  rapid.Bool().Draw(t, "wildcard"),
		}
		o.typ, _ = xds.LookupType(rapid.SampledFrom([]string{"CDS", "EDS"}).Draw(t, "type"))
		o.run()
	})
}
