package raw

import (
	"maps"
	"strings"
	"testing"
)

func TestLinesComeBack(t *testing.T) {
	in := []Line{
		{"h1", 1, "xebec", Values{"rps": 12345.5, "p99": 1e6, "err": 0}},
		{"idle", 3, "nginx", Values{"kb": 0.000125}},
	}
	text := "# a comment\n\n" + in[0].String() + "\n  " + in[1].String() + "\n"
	out, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != len(in) {
		t.Fatalf("%d lines of %q", len(out), text)
	}
	for i := range in {
		same := out[i].Suite == in[i].Suite && out[i].Round == in[i].Round && out[i].Proxy == in[i].Proxy
		if !same || !maps.Equal(out[i].Values, in[i].Values) {
			t.Errorf("%+v came back as %+v", in[i], out[i])
		}
	}
	if want := "h1 1 xebec err=0 p99=1000000 rps=12345.5"; in[0].String() != want {
		t.Errorf("%q, want %q", in[0], want)
	}
}

func TestReadSaysWhichLineIsWrong(t *testing.T) {
	for _, bad := range []string{"h1", "h1 1 xebec", "h1 one xebec a=1", "h1 1 xebec a", "h1 1 xebec a=b", "h1 1 xebec =1"} {
		_, err := Read(strings.NewReader("h1 1 xebec a=1\n" + bad + "\n"))
		if err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
