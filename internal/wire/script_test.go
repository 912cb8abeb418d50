package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/scripttest"
	"github.com/xebec-proxy/xebec/internal/wire"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
)

// TestScripts drives a stream through the traces in testdata. Each file says
// what it proves.
//
// Commands:
//
//	stream [delta] [only=CDS] [errors] [keep-first] [limit=BYTES] [window=N] [silent=RDS] [substitute] [deny=NAME]
//	       [max-names=N] [max-vain=N] [drop-extensions] [end-hosts] [inexpressible=NAME@VERSION]
//	    opens a new stream in place of the old one
//	publish
//	    each line sets a resource, "CDS x 1 EDS/x RDS/r alias=y", or removes one, "delete CDS x";
//	    "VHDS r/v 1 domain=*.x" is a virtual host, "RDS r 1 vhds ignore-port" a table with such;
//	    "is=list" makes it a list collection, "is=redirect" a redirect; without lines the group is loaded empty
//	ask CDS a b [nonce=N] [version=V] [error=MESSAGE]
//	    a SotW request with the complete list of names; "nonce=last" is the newest nonce of the type
//	delta CDS +a -b [a=1] [nonce=N] [error=MESSAGE]
//	    a delta request; a=1 is an entry of initial_resource_versions
//	ack CDS / nack CDS [MESSAGE]
//	    answers the oldest unanswered response of the type with the names of the last request
//	wait 5s
//	status CDS
//
// A type with v2 behind it, CDSv2, is asked for by its name in v2; "inexpressible=NAME@VERSION" is what cannot be sent so.
// Each prints what the request was and every response that is due: r/v@1=r/a,r/b is a virtual host with
// the names it was asked for by, ?r/c one of a name that leads to none.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func() func(*testing.T, *datadriven.TestData) string { return newScript().run })
}

type script struct {
	stream *wire.Stream
	snap   *snapshot.Snapshot
	now    time.Time
	delta  bool
	names  map[string][]string
	open   map[string][]string // unanswered nonces
	last   map[string]string
	out    strings.Builder
}

func newScript() *script {
	return &script{now: scripttest.Begin()}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "stream":
		s.start(t, d)
	case "publish":
		s.publish(t, d.Input)
	case "ask":
		s.ask(t, d)
	case "delta":
		s.deltaRequest(t, d)
	case "ack":
		s.answer(d, nil)
	case "nack":
		msg := "rejected"
		if len(d.CmdArgs) > 1 {
			msg = strings.ReplaceAll(d.CmdArgs[1].Key, "_", " ")
		}
		s.answer(d, &wire.Status{Code: 3, Message: msg})
	case "wait":
		s.now = s.now.Add(scripttest.Duration(t, d.CmdArgs[0].Key))
	case "status":
		return s.status(d)
	default:
		t.Fatalf("%s: unknown command %s", d.Pos, d.Cmd)
	}
	s.drain()
	s.checkDeadline(t, d)
	return scripttest.Said(&s.out)
}

func (s *script) start(t *testing.T, d *datadriven.TestData) {
	cfg := wire.Config{}
	for _, a := range d.CmdArgs {
		val := ""
		if len(a.Vals) > 0 {
			val = a.Vals[0]
		}
		switch a.Key {
		case "delta":
			cfg.Variant = wire.Delta
		case "only":
			cfg.Only = kindURL(val)
		case "errors":
			cfg.MissingErrors = true
		case "keep-first":
			cfg.AlwaysFirst = true
		case "limit":
			d.ScanArgs(t, "limit", &cfg.MaxResponse)
		case "max-names":
			d.ScanArgs(t, "max-names", &cfg.MaxNames)
		case "max-vain":
			d.ScanArgs(t, "max-vain", &cfg.MaxVain)
		case "window":
			d.ScanArgs(t, "window", &cfg.Outstanding)
		case "drop-extensions":
			cfg.DropExtensions = true
		case "end-hosts":
			cfg.EndHosts = true
		case "keep-extensions":
			cfg.KeepExtensions = true
		case "inexpressible":
			cfg.Inexpressible = func(r *xds.Resource) *wire.Status {
				if r.Name()+"@"+r.Version() == val {
					return &wire.Status{Code: wire.Internal, Message: "it cannot be said"}
				}
				return nil
			}
		case "silent":
			url := kindURL(val)
			cfg.SilentMissing = func(u string) bool { return u == url }
		case "substitute":
			cfg.Substitute = func(u, name string) *xds.Resource {
				return xds.NewResource(u, name, nil, xds.WithVersion("empty"))
			}
		case "deny":
			cfg.Deny = func(_, name string) *wire.Status {
				if name == val {
					return &wire.Status{Code: wire.PermissionDenied, Message: "not yours"}
				}
				return nil
			}
		default:
			t.Fatalf("%s: unknown option %s", d.Pos, a.Key)
		}
	}
	s.stream = wire.NewStream(cfg)
	s.delta = cfg.Variant == wire.Delta
	s.names, s.open, s.last = map[string][]string{}, map[string][]string{}, map[string]string{}
	if s.snap != nil {
		s.stream.Publish(s.snap)
	}
}

func (s *script) publish(t *testing.T, input string) {
	var c snapshot.Changes
	for line := range strings.Lines(input) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case f[0] == "delete":
			c.Remove = append(c.Remove, xds.Key{Type: kindURL(f[1]), Name: f[2]})
		default:
			c.Set = append(c.Set, parseResource(f))
		}
	}
	if s.snap == nil {
		s.snap = snapshot.New()
	}
	next, changes, err := s.snap.With(c)
	if err != nil {
		t.Fatal(err)
	}
	s.snap = next
	if s.stream != nil {
		s.stream.Publish(next, changes)
	}
}

func parseResource(f []string) *xds.Resource {
	var refs []xds.Reference
	var aliases []string
	var body []byte
	bodyType := kindURL(f[0])
	for _, w := range f[3:] {
		switch w {
		case "is=list":
			bodyType = xds.CollectionType(bodyType)
			continue
		case "is=redirect":
			bodyType = xds.LocatorType
			continue
		}
		if a, ok := strings.CutPrefix(w, "alias="); ok {
			aliases = append(aliases, a)
			continue
		}
		if b, ok := hostsBody(w); ok {
			body = append(body, b...)
			continue
		}
		kind, name, _ := strings.Cut(w, "/")
		refs = append(refs, xds.Reference{Key: xds.Key{Type: kindURL(kind), Name: name}})
	}
	return xds.NewResource(kindURL(f[0]), f[1], body, xds.WithVersion(f[2]), xds.WithReferences(refs), xds.WithAliases(aliases...),
		xds.WithBodyType(bodyType))
}

// hostsBody is the part of a message that a word about virtual hosts stands for.
func hostsBody(word string) ([]byte, bool) {
	var m proto.Message
	switch domain, ok := strings.CutPrefix(word, "domain="); {
	case ok:
		m = &routev3.VirtualHost{Domains: []string{domain}}
	case word == "vhds":
		m = &routev3.RouteConfiguration{Vhds: &routev3.Vhds{}}
	case word == "ignore-port":
		m = &routev3.RouteConfiguration{IgnorePortInHostMatching: true}
	default:
		return nil, false
	}
	b, err := proto.Marshal(m)
	return b, err == nil
}

func kindURL(api string) string {
	if v3, v2 := strings.CutSuffix(api, "v2"); v2 {
		return xds.V2Type(kindURL(v3))
	}
	if t, ok := xds.LookupType(api); ok {
		return t.URL
	}
	return api
}

func (s *script) ask(t *testing.T, d *datadriven.TestData) {
	r := &wire.Request{TypeURL: kindURL(d.CmdArgs[0].Key)}
	for _, a := range d.CmdArgs[1:] {
		switch {
		case len(a.Vals) == 0:
			r.Names = append(r.Names, strings.Trim(a.Key, `'`))
		case a.Key == "nonce":
			r.Nonce = s.nonce(r.TypeURL, a.Vals[0])
		case a.Key == "version" && a.Vals[0] == "current":
			r.Version = s.snap.Set(r.TypeURL).Version()
		case a.Key == "version":
			r.Version = a.Vals[0]
		case a.Key == "error":
			r.Error = &wire.Status{Code: 3, Message: a.Vals[0]}
		default:
			t.Fatalf("%s: unknown argument %s", d.Pos, a.Key)
		}
	}
	s.request(r)
}

// nonce resolves "last", and takes the nonce off the unanswered ones.
func (s *script) nonce(typeURL, word string) string {
	if word == "last" {
		word = s.last[typeURL]
	}
	s.open[typeURL] = slices.DeleteFunc(s.open[typeURL], func(n string) bool { return n == word })
	return word
}

func (s *script) deltaRequest(t *testing.T, d *datadriven.TestData) {
	r := &wire.Request{TypeURL: kindURL(strings.Trim(d.CmdArgs[0].Key, `'`))}
	for _, a := range d.CmdArgs[1:] {
		switch {
		case strings.HasPrefix(a.Key, "+"):
			r.Subscribe = append(r.Subscribe, a.Key[1:])
		case strings.HasPrefix(a.Key, "-"):
			r.Unsubscribe = append(r.Unsubscribe, a.Key[1:])
		case len(a.Vals) == 0:
			t.Fatalf("%s: unknown argument %s", d.Pos, a.Key)
		case a.Key == "nonce":
			r.Nonce = s.nonce(r.TypeURL, a.Vals[0])
		case a.Key == "error":
			r.Error = &wire.Status{Code: 3, Message: a.Vals[0]}
		default:
			if r.Initial == nil {
				r.Initial = map[string]string{}
			}
			r.Initial[a.Key] = a.Vals[0]
		}
	}
	s.request(r)
}

func (s *script) answer(d *datadriven.TestData, st *wire.Status) {
	u := kindURL(d.CmdArgs[0].Key)
	r := &wire.Request{TypeURL: u, Error: st, Names: s.names[u]}
	if len(s.open[u]) == 0 {
		s.out.WriteString("nothing to answer\n")
		return
	}
	r.Nonce, s.open[u] = s.open[u][0], s.open[u][1:]
	s.request(r)
}

var answerWords = map[wire.Answer]string{wire.Opened: "opened", wire.Updated: "updated", wire.Acked: "acked", wire.Nacked: "nacked", wire.Stale: "stale"}

func (s *script) request(r *wire.Request) {
	if !s.delta {
		s.names[r.TypeURL] = r.Names
	}
	out, err := s.stream.Request(s.now, r)
	if err != nil {
		fmt.Fprintf(&s.out, "error: %v\n", err)
		return
	}
	if out.Answer == wire.Stale || out.Answer == wire.Nacked {
		s.out.WriteString(answerWords[out.Answer])
		for _, rej := range out.Rejected {
			fmt.Fprintf(&s.out, " %s", rej.Name)
			if !rej.Blamed {
				s.out.WriteString("?")
			}
		}
		s.out.WriteString("\n")
	}
}

func (s *script) drain() {
	if s.stream == nil {
		return
	}
	for {
		r := s.stream.Next(s.now)
		if r == nil {
			return
		}
		s.open[r.TypeURL] = append(s.open[r.TypeURL], r.Nonce)
		s.last[r.TypeURL] = r.Nonce
		fmt.Fprintf(&s.out, "<- %s n=%s", api(r.TypeURL), r.Nonce)
		for _, res := range r.Resources {
			fmt.Fprintf(&s.out, " %s@%s", res.Name(), res.Version())
			if l := r.Aliases[res.Name()]; len(l) > 0 {
				fmt.Fprintf(&s.out, "=%s", strings.Join(l, ","))
			}
		}
		for _, n := range r.Missing {
			fmt.Fprintf(&s.out, " ?%s", n)
		}
		for _, n := range r.Removed {
			fmt.Fprintf(&s.out, " -%s", n)
		}
		for _, e := range r.Errors {
			fmt.Fprintf(&s.out, " !%s:%d", e.Name, e.Code)
		}
		s.out.WriteString("\n")
	}
}

// checkDeadline: a timer that is set to what is over already would fire for ever.
func (s *script) checkDeadline(t *testing.T, d *datadriven.TestData) {
	if s.stream == nil {
		return
	}
	if at := s.stream.Deadline(); !at.IsZero() && !at.After(s.now) {
		t.Fatalf("%s: nothing is due at %v, but the deadline is %v", d.Pos, s.now, at)
	}
}

func api(url string) string {
	if v3 := xds.V3Type(url); v3 != "" {
		return api(v3) + "v2"
	}
	if t, ok := xds.LookupType(url); ok {
		return t.API
	}
	return url
}

func (s *script) status(d *datadriven.TestData) string {
	words := []string{"NOT_SENT", "STALE", "SYNCED", "ERROR"}
	for st := range s.stream.Resources(kindURL(d.CmdArgs[0].Key)) {
		fmt.Fprintf(&s.out, "%s %s", st.Name, words[st.State])
		if st.Nack != nil {
			fmt.Fprintf(&s.out, " %q", st.Nack.Status.Message)
		}
		if st.Withheld != "" {
			fmt.Fprintf(&s.out, " (%s)", st.Withheld)
		}
		s.out.WriteString("\n")
	}
	if s.out.Len() == 0 {
		return "nothing\n"
	}
	return s.out.String()
}
