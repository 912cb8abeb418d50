package client_test

import (
	"maps"
	"slices"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// audit checks the requests of a channel against the rules.
type audit struct {
	t     *rapid.T
	delta bool
	// Of the stream.
	node, answered bool
	unanswered     []pendingAnswer
	types          map[string]*auditType
	// versions are those last accepted, across streams.
	versions map[string]string
}

type pendingAnswer struct {
	typeURL, nonce string
	nack           bool
}

type auditType struct {
	names []string
	// implied says that the first request asked for everything by naming nothing:
	// to leave that, the wildcard has to be named.
	implied bool
	touched map[string]bool
	// left holds names that an answer left out although nobody gave them up.
	left  map[string]bool
	nonce string
}

func newAudit(t *rapid.T, delta bool) *audit {
	a := &audit{t: t, delta: delta, versions: map[string]string{}}
	a.open()
	return a
}

func (a *audit) open() {
	a.node, a.answered, a.unanswered, a.types = false, false, nil, map[string]*auditType{}
}

// touch notes that the user has given up or taken up a name.
func (a *audit) touch(u, name string) {
	if at := a.types[u]; at != nil {
		at.touched[name] = true
	}
}

func (a *audit) response(r *client.Response, out client.Outcome) {
	a.answered = true
	a.unanswered = append(a.unanswered, pendingAnswer{r.TypeURL, r.Nonce, out.Err != nil})
	if out.Err == nil {
		a.versions[r.TypeURL+r.Nonce] = r.Version
	}
}

func (a *audit) request(r *client.Request) {
	if r.WithNode == a.node {
		a.t.Fatalf("node=%v in a request, sent before: %v", r.WithNode, a.node) // XC-03
	}
	a.node = true
	at := a.types[r.TypeURL]
	first := at == nil
	if first {
		at = &auditType{touched: map[string]bool{}, left: map[string]bool{}}
		a.types[r.TypeURL] = at
	}
	if r.Answer {
		a.answer(r, at)
	}
	if a.delta {
		a.deltaNames(r, at, first)
	} else {
		a.sotwNames(r, at, first)
	}
	maps.DeleteFunc(at.touched, func(n string, _ bool) bool {
		// An answer may leave it out, and so does what makes sure that all was given up.
		return a.delta || slices.Contains(r.Names, n) || !r.Answer && len(r.Names) > 0
	})
}

// answer checks that responses are answered in their order, each once.
func (a *audit) answer(r *client.Request, at *auditType) {
	if len(a.unanswered) == 0 {
		a.t.Fatalf("an answer with nonce %q, but nothing is unanswered", r.Nonce)
	}
	want := a.unanswered[0]
	a.unanswered = a.unanswered[1:]
	if r.TypeURL != want.typeURL || r.Nonce != want.nonce || (r.Error != "") != want.nack {
		a.t.Fatalf("answer %s %q error %q, want one for %+v", xds.Kind(r.TypeURL), r.Nonce, r.Error, want)
	}
	if !a.delta && !want.nack && r.Version != a.versions[r.TypeURL+r.Nonce] {
		a.t.Fatalf("ACK of nonce %q with version %q", r.Nonce, r.Version)
	}
	at.nonce = r.Nonce
}

func (a *audit) sotwNames(r *client.Request, at *auditType, first bool) {
	if r.Nonce != at.nonce {
		a.t.Fatalf("nonce %q, the newest is %q", r.Nonce, at.nonce) // XC-04, XC-05
	}
	if !slices.IsSorted(r.Names) || len(slices.Compact(slices.Clone(r.Names))) != len(r.Names) {
		a.t.Fatalf("names %v", r.Names)
	}
	typ, _ := xds.LookupType(r.TypeURL)
	if first && len(r.Names) == 0 && !typ.Wildcard {
		a.t.Fatalf("a first request of %s that names nothing", typ.Kind) // XC-24
	}
	same := slices.Equal(at.names, r.Names)
	if !first && !r.Answer && same {
		a.t.Fatalf("%s: the same list %v again", typ.Kind, r.Names)
	}
	for _, n := range r.Names {
		if !first && !slices.Contains(at.names, n) && !at.touched[n] && !at.left[n] && (!at.implied || n != "*") {
			a.t.Fatalf("%s: %q is named without a reason", typ.Kind, n)
		}
	}
	for _, n := range at.names {
		if r.Answer && !slices.Contains(r.Names, n) {
			at.left[n] = true
		}
	}
	at.names, at.implied = r.Names, at.implied || first && len(r.Names) == 0
}

func (a *audit) deltaNames(r *client.Request, at *auditType, first bool) {
	if !r.Answer && r.Nonce != "" {
		a.t.Fatalf("nonce %q in a request of its own", r.Nonce) // XS-50
	}
	if !first && (len(r.Held) > 0 || !r.Answer && len(r.Subscribe)+len(r.Unsubscribe) == 0) {
		a.t.Fatalf("%s: a request without a reason: %+v", xds.Kind(r.TypeURL), r)
	}
	for _, n := range r.Subscribe {
		if !first && !at.touched[n] {
			a.t.Fatalf("%s: %q is subscribed to without a reason", xds.Kind(r.TypeURL), n)
		}
		if slices.Contains(r.Unsubscribe, n) {
			a.t.Fatalf("%s: %q is in both lists", xds.Kind(r.TypeURL), n)
		}
		if !slices.Contains(at.names, n) {
			at.names = append(at.names, n)
		}
	}
	legacy := first && len(r.Subscribe) == 0
	if legacy {
		at.names = append(at.names, "*")
	}
	for _, n := range r.Unsubscribe {
		if !slices.Contains(at.names, n) {
			a.t.Fatalf("%s: %q is given up, but was never taken up", xds.Kind(r.TypeURL), n)
		}
		at.names = slices.DeleteFunc(at.names, func(o string) bool { return o == n })
	}
}

// rest checks that nothing is left to be answered.
func (a *audit) rest() {
	if len(a.unanswered) > 0 {
		a.t.Fatalf("not answered: %+v", a.unanswered)
	}
}
