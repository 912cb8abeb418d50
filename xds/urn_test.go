package xds

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

const listenerName = "envoy.config.listener.v3.Listener"

// Proves XN-01.
func TestParseURN(t *testing.T) {
	for _, c := range []struct {
		in        string
		want      URN
		canonical string
	}{
		{
			"xdstp://auth.example/" + listenerName + "/foo/bar?b=2&a=1",
			URN{"auth.example", listenerName, "foo/bar", map[string]string{"a": "1", "b": "2"}},
			"xdstp://auth.example/" + listenerName + "/foo/bar?a=1&b=2",
		},
		{
			"xdstp:///" + listenerName + "/foo",
			URN{"", listenerName, "foo", nil},
			"xdstp:///" + listenerName + "/foo",
		},
		{
			"xdstp://a:1%2f%3F@[::1]/T/x%20y%c3%a9?k%3d=v%26w&&flag",
			URN{"a:1/?@[::1]", "T", "x yé", map[string]string{"k=": "v&w", "flag": ""}},
			"xdstp://a:1%2F%3F@[::1]/T/x%20y%C3%A9?flag=&k%3D=v%26w",
		},
		{"xdstp://a/T/%41+b%2Fc?x=1+2", URN{"a", "T", "A+b/c", map[string]string{"x": "1+2"}}, "xdstp://a/T/A+b/c?x=1+2"},
		{"xdstp://a/T/%23%25?", URN{"a", "T", "#%", nil}, "xdstp://a/T/%23%25"},
		{"xdstp://a/T//b/", URN{"a", "T", "/b/", nil}, "xdstp://a/T//b/"},
	} {
		t.Run(c.in, func(t *testing.T) {
			u, err := ParseURN(c.in)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, u); d != "" {
				t.Errorf("parts (-want +got):\n%s", d)
			}
			if got := u.String(); got != c.canonical {
				t.Errorf("canonical form %q, want %q", got, c.canonical)
			}
		})
	}
}

func TestParseURNRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                           "does not start with",
		"xdstp:foo":                       "does not start with",
		"http://a/T/x":                    "does not start with",
		"xdstp://a":                       "has no type",
		"xdstp://a/":                      "has no type",
		"xdstp://a/T":                     "has no id",
		"xdstp://a/T/":                    "has no id",
		"xdstp://a/T?x=1":                 "has no id",
		"xdstp://a/a..b/x":                "is no message name",
		"xdstp://a/%54/x":                 "is no message name",
		"xdstp://a/T/%":                   "two hexadecimal digits",
		"xdstp://a/T/%4":                  "two hexadecimal digits",
		"xdstp://%zz/T/x":                 "authority:",
		"xdstp://a/T/%ff":                 "UTF-8",
		"xdstp://a/T/x?k=%ff":             `context parameter "k": is not UTF-8`,
		"xdstp://a/T/x?%zz=1":             `context parameter "%zz"`,
		"xdstp://a/T/x?=1":                "has no key",
		"xdstp://a/T/x?k=1&k=1":           `"k" occurs twice`,
		"xdstp://a/T/x?k=1&%6b=2":         `"k" occurs twice`,
		"xdstp://a/T/x#entry=foo":         "no directives",
		"xdstp://a/T/x?k=1#":              "no directives",
		"xdstp://\xff/T/x":                "UTF-8",
		TypePrefix + listenerName:         "does not start with",
		"xdstp://a/" + TypePrefix + "T/x": "",
	} {
		_, err := ParseURN(in)
		if want == "" {
			// The prefix of type URLs is a type name of its own here.
			if err != nil {
				t.Errorf("ParseURN(%q): %v", in, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseURN(%q): error %v, want one with %q", in, err, want)
		}
	}
}

// Partly proves XN-02.
func TestDirectivesStayOffTheWire(t *testing.T) {
	const s = "xdstp://a/T/x?k=1#alt=xdstp://b/T/y%23entry=z,entry=e"
	if _, err := ParseURN(s); !errors.Is(err, ErrDirectives) {
		t.Errorf("ParseURN accepted directives: %v", err)
	}
	l, err := ParseLocator(s)
	if err != nil {
		t.Fatal(err)
	}
	want := Locator{
		URN:   URN{"a", "T", "x", map[string]string{"k": "1"}},
		Alt:   &Locator{URN: URN{Authority: "b", Type: "T", ID: "y"}, Entry: "z"},
		Entry: "e",
	}
	if d := cmp.Diff(want, l); d != "" {
		t.Errorf("locator (-want +got):\n%s", d)
	}
	if got := l.URN.String(); got != "xdstp://a/T/x?k=1" {
		t.Errorf("the name on the wire is %q", got)
	}
	if l.String() != s {
		t.Errorf("canonical form %q, want %q", l, s)
	}
	for in, want := range map[string]string{
		"xdstp://a/T/x#":                                    "is unknown",
		"xdstp://a/T/x#foo=bar":                             "is unknown",
		"xdstp://a/T/x#entry=":                              "must be one or more letters",
		"xdstp://a/T/x#entry=a%20b":                         "must be one or more letters",
		"xdstp://a/T/x#entry=a%zz":                          "two hexadecimal digits",
		"xdstp://a/T/x#entry=a,entry=b":                     "entry occurs twice",
		"xdstp://a/T/x#alt=xdstp://a/T/y,alt=xdstp://a/T/z": "alt occurs twice",
		"xdstp://a/T/x#alt=xdstp://a/T/y#entry=z":           "second #",
		"xdstp://a/T/x#alt=plain":                           "does not start with",
		"xdstp://a/T#entry=z":                               "has no id",
	} {
		if _, err := ParseLocator(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseLocator(%q): error %v, want one with %q", in, err, want)
		}
	}
}

func TestAlternativesAreBounded(t *testing.T) {
	l := Locator{URN: URN{Authority: "a", Type: "T", ID: "x"}}
	for range maxAlternatives {
		alt := l
		l.Alt = &alt
	}
	if _, err := ParseLocator(l.String()); err != nil {
		t.Errorf("%d alternatives: %v", maxAlternatives, err)
	}
	if _, err := LocatorFromProto(l.Proto()); err != nil {
		t.Errorf("%d alternatives: %v", maxAlternatives, err)
	}
	deeper := Locator{URN: l.URN, Alt: &l}
	if _, err := ParseLocator(deeper.String()); err == nil {
		t.Error("one alternative too many was accepted")
	}
	if _, err := LocatorFromProto(deeper.Proto()); err == nil {
		t.Error("one alternative too many was accepted in a message")
	}
}

// Partly proves XN-03.
func TestCheckType(t *testing.T) {
	for _, c := range []struct {
		name, typeURL string
		ok            bool
	}{
		{"xdstp://a/" + listenerName + "/x", ListenerType, true},
		{"xdstp://a/" + listenerName + "/*", ListenerType, true},
		{"xdstp://a/" + listenerName + "Collection/x", ListenerType, true},
		{"xdstp://a/" + listenerName + "Collection/x", ListenerType + "Collection", true},
		{"xdstp://a/" + listenerName + "Collection/x/*", ListenerType, false},
		{"xdstp://a/" + listenerName + "/x", ClusterType, false},
		{"xdstp://a/" + listenerName + "Collection/x", ClusterType, false},
		{"xdstp://a/" + listenerName + "/x", ListenerType + "Collection", false},
	} {
		err := mustURN(t, c.name).CheckType(c.typeURL)
		if (err == nil) != c.ok {
			t.Errorf("%s as %s: %v", c.name, c.typeURL, err)
		}
	}
}

// Proves XN-04.
func TestContextParameters(t *testing.T) {
	plain, asked := mustURN(t, "xdstp://a/T/x"), mustURN(t, "xdstp://a/T/x?a=1")
	if plain.Equal(asked) || asked.Covers(plain.String()) || plain.Covers(asked.String()) {
		t.Error("a name with a parameter matches the name without it")
	}
	if !asked.Covers("xdstp://a/T/x?%61=1") {
		t.Error("the answer with the parameter asked for does not match")
	}
	if err := asked.CheckUserParams(); err != nil {
		t.Error(err)
	}
	made := asked.WithResourceParams(map[string]string{"vip": "10.0.0.1", "xds.resource.port": "80"})
	if got, want := made.String(), "xdstp://a/T/x?a=1&xds.resource.port=80&xds.resource.vip=10.0.0.1"; got != want {
		t.Errorf("generated parameters: %q, want %q", got, want)
	}
	if len(asked.Params) != 1 {
		t.Error("the receiver was changed")
	}
	if err := made.CheckUserParams(); err == nil || !strings.Contains(err.Error(), "reserved prefix") {
		t.Errorf("a reserved parameter passed as the user's: %v", err)
	}
}

// Partly proves XN-05.
func TestGlobCovers(t *testing.T) {
	for _, c := range []struct {
		glob, name string
		want       bool
	}{
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/bar", true},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/b%61r", true},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/*", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/bar/baz", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foobar", false},
		{"xdstp://a/T/foo/*", "xdstp://b/T/foo/bar", false},
		{"xdstp://a/T/foo/*", "xdstp://a/U/foo/bar", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/bar?some=thing", false},
		{"xdstp://a/T/foo/*", "xdstp://a/T/foo/bar#entry=x", false},
		{"xdstp://a/T/foo/*", "foo/bar", false},
		{"xdstp://a/T/foo/*?a=1&b=2", "xdstp://a/T/foo/bar?b=2&a=1", true},
		{"xdstp://a/T/foo/*?some=thing", "xdstp://a/T/foo/bar", false},
		{"xdstp://a/T/*", "xdstp://a/T/foo", true},
		{"xdstp://a/T/*", "xdstp://a/T/foo/bar", false},
		{"xdstp://a/T/foo*", "xdstp://a/T/foobar", false},
		{"xdstp://a/T/foo*", "xdstp://a/T/foo*", true},
		{"xdstp://a/T/foo/*/bar", "xdstp://a/T/foo/x/bar", false},
	} {
		if got := mustURN(t, c.glob).Covers(c.name); got != c.want {
			t.Errorf("%s covers %s: %t, want %t", c.glob, c.name, got, c.want)
		}
	}
}

func TestGlobParts(t *testing.T) {
	for _, c := range []struct {
		in, prefix, glob string
		isGlob           bool
	}{
		{"xdstp://a/T/foo/*?k=1", "foo/", "", true},
		{"xdstp://a/T/*", "", "", true},
		{"xdstp://a/T/foo/bar?k=1", "", "xdstp://a/T/foo/*?k=1", false},
		{"xdstp://a/T/foo", "", "xdstp://a/T/*", false},
		{"xdstp://a/T/foo*", "", "xdstp://a/T/*", false},
		{"xdstp://a/T/foo/", "", "", false},
	} {
		u := mustURN(t, c.in)
		if u.IsGlob() != c.isGlob || u.GlobPrefix() != c.prefix {
			t.Errorf("%s: glob %t, prefix %q", c.in, u.IsGlob(), u.GlobPrefix())
		}
		g, ok := u.Glob()
		if ok != (c.glob != "") || ok && g.String() != c.glob {
			t.Errorf("%s is a member of %q, %t; want %q", c.in, g, ok, c.glob)
		}
	}
}

func TestListCollection(t *testing.T) {
	for in, want := range map[string]string{
		"xdstp://a/" + listenerName + "Collection/x":   listenerName,
		"xdstp://a/" + listenerName + "Collection/x/*": "",
		"xdstp://a/" + listenerName + "/x":             "",
		"xdstp://a/Collection/x":                       "",
		"xdstp://a/p.Collection/x":                     "",
	} {
		u := mustURN(t, in)
		got, ok := u.ElementType()
		if got != want || ok != (want != "") || ok != u.IsListCollection() {
			t.Errorf("%s: element type %q, %t; want %q", in, got, ok, want)
		}
	}
}

func TestIsURN(t *testing.T) {
	for in, want := range map[string]bool{
		"xdstp://a/T/x": true, "xdstp:broken": true, "cluster": false, "": false, "*": false, "http://a/T/x": false,
	} {
		if IsURN(in) != want {
			t.Errorf("IsURN(%q) = %t", in, !want)
		}
	}
}

func mustURN(t *testing.T, s string) URN {
	t.Helper()
	u, err := ParseURN(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func drawURN(t *rapid.T) URN {
	text := rapid.String()
	return URN{
		Authority: text.Draw(t, "authority"),
		Type:      rapid.SampledFrom([]string{"T", listenerName, listenerName + "Collection"}).Draw(t, "type"),
		ID:        text.Filter(func(s string) bool { return s != "" }).Draw(t, "id"),
		Params:    rapid.MapOfN(text.Filter(func(s string) bool { return s != "" }), text, 0, 4).Draw(t, "params"),
	}
}

// Proves XN-01.
func TestURNRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, o := drawURN(t), drawURN(t)
		back, err := ParseURN(u.String())
		if err != nil || !back.Equal(u) {
			t.Fatalf("%#v as %q came back as %#v, %v", u, u, back, err)
		}
		if u.Equal(o) != (u.String() == o.String()) {
			t.Fatalf("%q and %q: equal %t", u, o, u.Equal(o))
		}
		viaProto, err := URNFromProto(u.Proto())
		if err != nil || !viaProto.Equal(u) {
			t.Fatalf("%#v came back from its message as %#v, %v", u, viaProto, err)
		}
		l := Locator{URN: u, Alt: &Locator{URN: o, Entry: "in/ner:1"}, Entry: "a.b~c"}
		lBack, err := ParseLocator(l.String())
		if err != nil || lBack.String() != l.String() {
			t.Fatalf("%q came back as %q, %v", l, lBack, err)
		}
		lProto, err := LocatorFromProto(l.Proto())
		if err != nil || !proto.Equal(lProto.Proto(), l.Proto()) {
			t.Fatalf("%q came back from its message as %q, %v", l, lProto, err)
		}
	})
}

// Proves XN-01.
func FuzzURN(f *testing.F) {
	for _, s := range []string{
		"", "plain", "xdstp:", "xdstp://", "xdstp:///T/x", "xdstp://a/T/x", "xdstp://a/" + listenerName + "/foo/*",
		"xdstp://a/T/x?b=2&a=1", "xdstp://a/T/x?a=1&a=2", "xdstp://a%2Fb/T/%25%3F%23?%26%3D=%26",
		"xdstp://a/T/x#entry=e", "xdstp://a/T/x#alt=xdstp://b/T/y%23entry=z,entry=e", "xdstp://a/TCollection/x",
		"xdstp://a/T/%ff", "xdstp://a/T/x?flag", "xdstp://a/T/é ü",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		fuzzLocator(t, s)
		u, err := ParseURN(s)
		if err != nil {
			return
		}
		canonical := u.String()
		back, err := ParseURN(canonical)
		if err != nil || !back.Equal(u) {
			t.Fatalf("%q as %q came back as %#v, %v", s, canonical, back, err)
		}
		if back.String() != canonical {
			t.Fatalf("canonical form of %q changes to %q", canonical, back)
		}
		if u.Covers(s) == u.IsGlob() {
			t.Fatalf("%q: covers itself %t, glob %t", s, u.Covers(s), u.IsGlob())
		}
		if g, ok := u.Glob(); ok && (!g.IsGlob() || !g.Covers(s) || !strings.HasPrefix(u.ID, g.GlobPrefix())) {
			t.Fatalf("%q is not covered by its own glob %q", s, g)
		}
	})
}

func fuzzLocator(t *testing.T, s string) {
	l, err := ParseLocator(s)
	if err != nil {
		return
	}
	back, err := ParseLocator(l.String())
	if err != nil || back.String() != l.String() {
		t.Fatalf("locator %q as %q came back as %q, %v", s, l, back, err)
	}
}
