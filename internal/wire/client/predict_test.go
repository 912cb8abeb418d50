package client_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// What comes again as it is held and in the same order is not even looked up;
// one that differs, comes in between or is left out costs itself only.
func TestRepetitionIsNotLookedUp(t *testing.T) {
	for _, star := range []bool{true, false} {
		eds, read := benchType("EDS"), &checker{}
		ch := client.New(client.Config{Checker: read})
		for name := range strings.FieldsSeq("a b c d e f") {
			if star {
				name = "*"
			}
			ch.Subscribe(eds, name)
		}
		ch.Open(begin)
		ch.Next(begin)
		for _, step := range []struct {
			words  string
			lookUp int
		}{
			{"a1 b1 c1 d1 e1", 5},
			{"a1 b1 c1 d1 e1", 0},
			{"a1 b2 c1 d1 e1", 1},
			{"a1 b2 c1 f1 d1 e1", 1},
			{"a1 b2 c1 f1 d1 e1", 0},
			{"a1 c1 f1 d1 e1", 1},
			{"e1 a1 c1 f1 d1", 1},
			{"e1 a1 c1 f1 d1", 0},
			{"f1", 1},
		} {
			var words []string
			for w := range strings.FieldsSeq(step.words) {
				words = append(words, w[:1]+" "+w[1:])
			}
			read.names = 0
			if out := respond(ch, eds, "n", words...); out.Err != nil || read.names != step.lookUp {
				t.Errorf("%s: %v, %d names were read, want %d", step.words, out.Err, read.names, step.lookUp)
			}
		}
	}
}

// Whatever a server sends in which order, it means the same as if every resource
// were looked up by its name; and of a response nothing is kept that is not a copy.
func TestPredictionChangesNothing(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 400)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		in := tape(data)
		cfg := client.Config{WholeResponses: seed&1 != 0, Checker: &checker{}}
		sure, fast := client.New(cfg), client.New(cfg)
		both := func(do func(*client.Channel)) { do(sure); do(fast) }
		both(func(ch *client.Channel) { ch.Open(begin) })
		typ := benchType([]string{"CDS", "EDS"}[seed&2>>1])
		words := []string{"a", "b", "c", "a", "b", "c", "*"}
		for len(in) > 0 {
			name := in.pick(words...)
			switch in.next() % 8 {
			case 0, 1:
				both(func(ch *client.Channel) { ch.Subscribe(typ, name) })
			case 2:
				both(func(ch *client.Channel) { ch.Unsubscribe(typ.URL, name) })
			case 3:
				held := client.Held{Name: name, Body: []byte(in.pick(words...) + " 1")}
				both(func(ch *client.Channel) { ch.Seed(typ.URL, held); ch.Await(typ.URL, name) })
			default:
				sameOutcome(t, sure, fast, in.plain(typ))
			}
			both(func(ch *client.Channel) { ch.Next(begin) })
			if err := fast.Verify(); err != nil {
				t.Fatal(err)
			}
			a, b := slices.Collect(sure.Resources(typ.URL)), slices.Collect(fast.Resources(typ.URL))
			if diff := cmp.Diff(a, b, sameText()); diff != "" {
				t.Fatalf("seed %d: %s", seed, diff)
			}
		}
	}
}

// plain is a response in which most resources have no name but the body's.
func (t *tape) plain(typ xds.Type) *client.Response {
	r := &client.Response{TypeURL: typ.URL, Version: t.pick("1", "2"), Nonce: "n"}
	for _, name := range []string{"a", "b", "c", "a"}[t.next()%2:][:t.next()%4] {
		raw := client.Raw{TypeURL: typ.URL, Body: []byte(name + " " + t.pick("1", "1", "1", "2", "bad")), HasBody: true}
		switch t.next() % 8 {
		case 0:
			raw.Name = t.pick("a", "b", "c")
		case 1:
			raw.TypeURL = "other"
		}
		r.Resources = append(r.Resources, raw)
	}
	return r
}

// sameOutcome gives a response to a channel that looks up names and to one that
// does not, and destroys it.
func sameOutcome(t *testing.T, sure, fast *client.Channel, r *client.Response) {
	t.Helper()
	sure.Unpredict()
	a, b := sure.Receive(begin, r), fast.Receive(begin, r)
	for _, raw := range r.Resources {
		for i := range raw.Body {
			raw.Body[i] = '!'
		}
	}
	clear(r.Resources)
	if diff := cmp.Diff(a, b, sameText()); diff != "" {
		t.Fatal(diff)
	}
}

// sameText holds errors of the same text to be equal.
func sameText() cmp.Option {
	return cmp.Comparer(func(a, b error) bool { return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error() })
}
