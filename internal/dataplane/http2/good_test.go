package http2

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter/header"
)

// TestListsInOrderNeedNoOtherLook has a connection that remembers which lists were
// in order beside one that does not: both judge every head alike, whatever follows
// the list.
func TestListsInOrderNeedNoOtherLook(t *testing.T) {
	pool := []string{
		":method GET", ":method POST", ":method CONNECT", ":path /", ":path *", ":path /a b", ":scheme http", ":scheme 1",
		":authority a", ":authority a/b", ":protocol websocket", ":status 200", ":status 204", ":status 100", ":status 101",
		"host a", "te trailers", "te gzip", "connection close", "cookie a=1", "content-length 3", "content-length x",
		"content-type text/plain", "x-a 1", "x-b 2",
	}
	usual := map[Role][][]int{
		Server: {{0, 3, 6, 8}, {1, 3, 6, 8, 16, 22}, {0, 3, 6, 8, 19}, {2, 8}, {2, 3, 6, 8, 10}, {0, 3, 6, 15}, {0, 3, 6}, {0, 3, 6, 8, 20}},
		Client: {{11}, {11, 22}, {12}, {13}, {11, 20}, {22, 11}},
	}
	rapid.Check(t, func(t *rapid.T) {
		role := rapid.SampledFrom([]Role{Server, Client}).Draw(t, "role")
		o := Options{AllowConnect: rapid.Bool().Draw(t, "connect")}
		var out []byte
		var remembers Conn
		remembers.Init(role, &o, nil, &out)
		draw := func(label string, most int) []int {
			return rapid.SliceOfN(rapid.IntRange(0, len(pool)-1), 0, most).Draw(t, label)
		}
		fill := func(m *header.Map, list []int) {
			for _, i := range list {
				name, value := splitField(pool[i])
				m.Add(name, value)
			}
		}
		var lists []*header.Frozen
		for _, l := range append(usual[role], draw("list", 6)) {
			var m header.Map
			fill(&m, l)
			lists = append(lists, m.Freeze())
		}
		for range rapid.IntRange(1, 60).Draw(t, "heads") {
			list, more := rapid.SampledFrom(lists).Draw(t, "which"), draw("more", 2)
			kind := Stream{connect: role == Client && rapid.Bool().Draw(t, "tunnel"), noBody: role == Client && rapid.Bool().Draw(t, "HEAD"), length: -1}
			judge := func(c *Conn) (s Stream, f fault, informational bool) {
				s = kind
				s.Headers = &header.Map{}
				s.Headers.Thaw(list)
				fill(s.Headers, more)
				if role == Server {
					return s, c.checkRequest(&s), false
				}
				informational, f = c.checkResponse(&s, false)
				return s, f, informational
			}
			var forgets Conn
			forgets.Init(role, &o, nil, &out)
			got, gotFault, gotInfo := judge(&remembers)
			want, wantFault, wantInfo := judge(&forgets)
			if gotFault != wantFault || gotInfo != wantInfo || got.length != want.length || got.connect != want.connect || got.Headers.String() != want.Headers.String() {
				t.Fatalf("%v %v %d %v\n%s, without a memory\n%v %v %d %v\n%s", gotFault, gotInfo, got.length, got.connect, got.Headers, wantFault, wantInfo, want.length, want.connect, want.Headers)
			}
		}
	})
}

// TestUsualListsAreRemembered, so that the property above is of something, but not
// what the fields behind them decide.
func TestUsualListsAreRemembered(t *testing.T) {
	head := []string{":method GET", ":path /", ":scheme http", ":authority a", "te trailers"}
	for _, c := range []struct {
		name        string
		list        []string
		first, next string // behind the list
		known       bool   // when it comes again
	}{
		{"nothing new", head, "", "", true},
		{"an ordinary field", head, "x-trace-id 1", "x-trace-id 2", true},
		{"a cookie", append(head, "cookie a=1"), "", "cookie b=2", false},
		{"a length", head, "", "content-length 1", false},
		{"te", head, "", "te gzip", false},
		{"a host", head, "", "host b", false},
		{"a pseudo-header", head, "", ":path /", false},
		{"a connection-specific field", head, "", "connection close", false},
		{"no :authority any more", head[:3], ":authority a", "", false},
		{"what needs a look each time", head[:4], "te trailers", "", true},
		{"a length in the list", append(head, "content-length 0"), "", "", false},
		{"a host in the list", append(head, "host a"), "", "", false},
	} {
		var c2 Conn
		var out []byte
		c2.Init(Server, &Options{}, nil, &out)
		fill := func(m *header.Map, fields ...string) *header.Map {
			for _, f := range fields {
				if name, value := splitField(f); name != "" {
					m.Add(name, value)
				}
			}
			return m
		}
		list := fill(&header.Map{}, c.list...).Freeze()
		for range 3 {
			s := Stream{Headers: &header.Map{}, length: -1}
			s.Headers.Thaw(list)
			fill(s.Headers, c.first)
			if f := c2.checkRequest(&s); f != (fault{}) {
				t.Fatal(c.name, f)
			}
		}
		var m header.Map
		m.Thaw(list)
		if known := c2.good.allow(fill(&m, c.next)); known != c.known {
			t.Errorf("%s: known is %v", c.name, known)
		}
		if c2.good.next > 1 {
			t.Errorf("%s: it was learned %d times", c.name, c2.good.next)
		}
	}
}

func splitField(f string) (name, value string) {
	name, value, _ = strings.Cut(f, " ")
	return name, value
}
