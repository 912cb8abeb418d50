package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/xebec-proxy/xebec/internal/scripttest"
	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xds"
)

// TestScripts drives a channel through the traces in testdata. Each file says
// what it proves.
//
// Commands:
//
//	channel [delta] [timeout=15s] [transient] [whole] [repeat-node] [explicit] [burst=N rate=N]
//	    begins with a new channel
//	open / closed
//	    a stream is there / has ended
//	sub CDS a b / unsub CDS a / await EDS a / forget EDS a
//	seed CDS
//	    each line is a resource that is held from elsewhere
//	recv CDS version nonce
//	    a response; its lines are
//	      a 1 [ttl=10s] [alias=x] [type=EDS] [wrapped] [redirect] [list]   a resource whose body is "a 1"
//	      a 1 heartbeat [ttl=10s]                        one without a body
//	      unreadable                                     one whose name cannot be read
//	      -a                                             a name in removed_resources
//	      !a 5 text                                      an entry of resource_errors
//	wait 5s
//	hold / release
//	    between them requests that are due are not sent
//	status CDS
//
// Each prints what was told to the watchers and every request that is due.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func() func(*testing.T, *datadriven.TestData) string { return newScript().run })
}

// checker reads bodies of the form "name version". A version that starts with
// "flawed" is used in part, one with "bad" is refused, and so is a response that would change "poison".
type checker struct {
	checks, names int
}

func (c *checker) Name(_ string, body []byte) (string, error) {
	c.names++
	if bytes.Equal(body, []byte("unreadable")) {
		return "", errors.New("no field 1")
	}
	name, _, _ := strings.Cut(string(body), " ")
	return name, nil
}

func (c *checker) Check(_, _, _ string, _ client.Form, body []byte) (any, error) {
	c.checks++
	_, version, _ := strings.Cut(string(body), " ")
	if strings.HasPrefix(version, "flawed") {
		return version, &client.Flaw{Err: errors.New("an entry is bad")}
	}
	if strings.HasPrefix(version, "bad") {
		return nil, errors.New(version)
	}
	return version, nil
}

func (*checker) Leaving(string, []string) {}

func (c *checker) CheckAll(_, _ string, events []client.Event) error {
	for _, e := range events {
		if e.Name == "poison" {
			return errors.New("the validator refuses it")
		}
	}
	return nil
}

type script struct {
	ch      *client.Channel
	checker *checker
	now     time.Time
	delta   bool
	held    bool
	out     strings.Builder
}

func newScript() *script {
	return &script{now: scripttest.Begin()}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "channel":
		s.start(t, d)
	case "open":
		s.ch.Open(s.now)
	case "closed":
		if s.ch.Closed(s.now) {
			s.out.WriteString("answered\n")
		} else {
			s.out.WriteString("not answered\n")
		}
	case "sub", "unsub", "await", "repeat", "forget":
		s.names(d)
	case "seed":
		s.seed(t, d)
	case "recv":
		s.receive(t, d)
	case "wait":
		s.wait(t, d)
	case "hold":
		s.held = true
	case "release":
		s.held = false
	case "status":
		s.status(d)
		return s.out.String()
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	s.drain()
	return scripttest.Said(&s.out)
}

func (s *script) start(t *testing.T, d *datadriven.TestData) {
	s.checker = &checker{}
	cfg := client.Config{Checker: s.checker}
	limit := client.Limit{}
	for _, a := range d.CmdArgs {
		switch a.Key {
		case "delta":
			cfg.Delta = true
		case "timeout":
			cfg.ResourceTimeout = scripttest.Duration(t, a.Vals[0])
		case "transient":
			cfg.TransientTimeout = true
		case "whole":
			cfg.WholeResponses = true
		case "repeat-node":
			cfg.RepeatNode = true
		case "explicit":
			cfg.ExplicitWildcard = true
		case "burst":
			d.ScanArgs(t, "burst", &limit.Burst)
			cfg.Limit = &limit
		case "rate":
			rate, err := strconv.ParseFloat(a.Vals[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			limit.PerSecond = rate
		default:
			t.Fatalf("%s: unknown option %s", d.Pos, a.Key)
		}
	}
	s.ch, s.delta = client.New(cfg), cfg.Delta
}

func typeOf(api string) xds.Type {
	if t, ok := xds.LookupType(api); ok {
		return t
	}
	return xds.Type{URL: xds.TypePrefix + api, API: api}
}

func api(url string) string {
	if t, ok := xds.LookupType(url); ok {
		return t.API
	}
	return strings.TrimPrefix(url, xds.TypePrefix)
}

func (s *script) names(d *datadriven.TestData) {
	typ := typeOf(d.CmdArgs[0].Key)
	for _, a := range d.CmdArgs[1:] {
		for _, name := range expand(a.Key) {
			switch d.Cmd {
			case "sub":
				s.ch.Subscribe(typ, name)
			case "unsub":
				s.ch.Unsubscribe(typ.URL, name)
			case "await":
				s.ch.Await(typ.URL, name)
			case "repeat":
				s.ch.Repeat(typ.URL, name)
			case "forget":
				s.ch.Forget(typ.URL, name)
			}
		}
	}
}

// expand reads "c1..c3" as c1 c2 c3.
func expand(word string) []string {
	first, last, ok := strings.Cut(word, "..")
	if !ok {
		return []string{word}
	}
	stem := strings.TrimRight(first, "0123456789")
	from, err1 := strconv.Atoi(strings.TrimPrefix(first, stem))
	to, err2 := strconv.Atoi(strings.TrimPrefix(last, stem))
	if err1 != nil || err2 != nil {
		return []string{word}
	}
	var list []string
	for i := from; i <= to; i++ {
		list = append(list, stem+strconv.Itoa(i))
	}
	return list
}

func (s *script) seed(t *testing.T, d *datadriven.TestData) {
	typ := typeOf(d.CmdArgs[0].Key)
	for line := range strings.Lines(d.Input) {
		raw := s.raw(t, typ.URL, strings.Fields(line))
		s.ch.Seed(typ.URL, client.Held{Name: strings.Fields(line)[0], Version: strings.Fields(line)[1], Body: raw.Body})
	}
}

// raw reads a line of a response as a resource.
func (s *script) raw(t *testing.T, url string, f []string) client.Raw {
	if f[0] == "unreadable" {
		return client.Raw{TypeURL: url, Body: []byte("unreadable"), HasBody: true}
	}
	r := client.Raw{Name: f[0], Version: f[1], TypeURL: url, HasBody: true, Body: []byte(f[0] + " " + f[1])}
	wrapped := s.delta
	for _, w := range f[2:] {
		key, val, _ := strings.Cut(w, "=")
		switch key {
		case "ttl":
			r.TTL, wrapped = scripttest.Duration(t, val), true
		case "alias":
			r.Aliases = append(r.Aliases, val)
		case "type":
			r.TypeURL = typeOf(val).URL
		case "redirect":
			r.TypeURL, wrapped = xds.LocatorType, true
		case "list":
			r.TypeURL, wrapped = xds.CollectionType(url), true
		case "heartbeat":
			r.HasBody, r.Body, r.TypeURL, wrapped = false, nil, "", true
		case "wrapped":
			wrapped = true
		default:
			t.Fatalf("unknown word %s", w)
		}
	}
	if !wrapped {
		r.Name, r.Version = "", ""
	}
	return r
}

func (s *script) receive(t *testing.T, d *datadriven.TestData) {
	r := &client.Response{TypeURL: typeOf(d.CmdArgs[0].Key).URL}
	if len(d.CmdArgs) > 1 {
		r.Version = d.CmdArgs[1].Key
	}
	if len(d.CmdArgs) > 2 {
		r.Nonce = d.CmdArgs[2].Key
	}
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(f[0], "-"):
			r.Removed = append(r.Removed, f[0][1:])
		case strings.HasPrefix(f[0], "!"):
			code, err := strconv.ParseInt(f[1], 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			st := client.Status{Code: int32(code), Message: strings.Join(f[2:], " ")}
			r.Errors = append(r.Errors, client.ResourceError{Name: f[0][1:], Status: st})
		default:
			for _, name := range expand(f[0]) {
				r.Resources = append(r.Resources, s.raw(t, r.TypeURL, append([]string{name}, f[1:]...)))
			}
		}
	}
	before := s.checker.checks
	out := s.ch.Receive(s.now, r)
	if out.Ignored {
		s.out.WriteString("ignored\n")
	}
	s.events(out.Events)
	if n := s.checker.checks - before; n != len(r.Resources) {
		fmt.Fprintf(&s.out, "decoded %d of %d\n", n, len(r.Resources))
	}
}

func (s *script) events(events []client.Event) {
	for _, e := range events {
		fmt.Fprintf(&s.out, "%s %s", e.Kind, e.Name)
		if e.Version != "" {
			fmt.Fprintf(&s.out, "@%s", e.Version)
		}
		s.out.WriteString([...]string{"", " redirect", " list"}[e.Form])
		for _, a := range e.Aliases {
			fmt.Fprintf(&s.out, " alias %s", a)
		}
		if e.Err != nil {
			fmt.Fprintf(&s.out, ": %v", e.Err)
		}
		if st, ok := errors.AsType[*client.Status](e.Err); ok {
			fmt.Fprintf(&s.out, " (%d)", st.Code)
		}
		s.out.WriteString("\n")
	}
}

func (s *script) wait(t *testing.T, d *datadriven.TestData) {
	s.now = s.now.Add(scripttest.Duration(t, d.CmdArgs[0].Key))
	for _, te := range s.ch.Expire(s.now) {
		fmt.Fprintf(&s.out, "of %s:\n", api(te.TypeURL))
		s.events(te.Events)
	}
}

func (s *script) drain() {
	if s.ch == nil || s.held {
		return
	}
	for r := s.ch.Next(s.now); r != nil; r = s.ch.Next(s.now) {
		s.out.WriteString(show(r, s.delta))
	}
}

func show(r *client.Request, delta bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "-> %s", api(r.TypeURL))
	if r.WithNode {
		b.WriteString(" node")
	}
	if !delta {
		fmt.Fprintf(&b, " V=%q N=%q [%s]", r.Version, r.Nonce, list(r.Names))
	} else {
		if r.Nonce != "" || r.Answer {
			fmt.Fprintf(&b, " N=%q", r.Nonce)
		}
		for _, n := range r.Subscribe {
			fmt.Fprintf(&b, " +%s", n)
		}
		for _, n := range r.Unsubscribe {
			fmt.Fprintf(&b, " -%s", n)
		}
		for _, n := range slices.Sorted(maps.Keys(r.Held)) {
			fmt.Fprintf(&b, " %s=%s", n, r.Held[n])
		}
	}
	switch {
	case r.Error != "":
		fmt.Fprintf(&b, " NACK %s", r.Error)
	case r.Answer:
		b.WriteString(" ACK")
	}
	return b.String() + "\n"
}

// list shortens long lists.
func list(names []string) string {
	if len(names) > 8 {
		return fmt.Sprintf("%s ... %s: %d names", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, " ")
}

var stateWords = map[client.State]string{
	client.Requested: "REQUESTED", client.DoesNotExist: "DOES_NOT_EXIST", client.Acked: "ACKED",
	client.Nacked: "NACKED", client.ReceivedError: "RECEIVED_ERROR", client.TimedOut: "TIMEOUT",
}

func (s *script) status(d *datadriven.TestData) {
	url := typeOf(d.CmdArgs[0].Key).URL
	st, known := s.ch.Status(url)
	if !known {
		s.out.WriteString("nothing\n")
		return
	}
	fmt.Fprintf(&s.out, "version=%q nonce=%q wanted=%d held=%d", st.Version, st.Nonce, st.Wanted, st.Resources)
	if st.Wildcard {
		s.out.WriteString(" wildcard")
	}
	if st.Rejection != nil {
		fmt.Fprintf(&s.out, " rejected: %v", st.Rejection)
	}
	if n := s.ch.Stats().Limited; n > 0 {
		fmt.Fprintf(&s.out, " limited=%d", n)
	}
	if n := s.ch.Stats().Pending; n > 0 {
		fmt.Fprintf(&s.out, " pending=%d", n)
	}
	s.out.WriteString("\n")
	for r := range s.ch.Resources(url) {
		fmt.Fprintf(&s.out, "%s %s", r.Name, stateWords[r.State])
		if r.Held {
			fmt.Fprintf(&s.out, " %s", r.Version)
		}
		if r.Err != nil {
			fmt.Fprintf(&s.out, " %s %q", r.ErrVersion, r.Err)
		}
		s.out.WriteString("\n")
	}
}
