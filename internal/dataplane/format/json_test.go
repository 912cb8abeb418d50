package format_test

import (
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

func parseJSON(t testing.TB, text string, o format.Options) *format.JSON {
	t.Helper()
	var s structpb.Struct
	if err := protojson.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	j, err := format.ParseJSON(&s, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// Proves AL-03: types, nesting, sorted keys, null, omit_empty_values, and escapes
// as in Envoy 1.40.
func TestJSON(t *testing.T) {
	for _, x := range []struct {
		in, want string
		omit     bool
	}{
		{`{"z":"%DURATION%","a":"x%REQ(x-none)%","b":"%REQ(x-none)%"}`, `{"a":"x-","b":null,"z":13}`, false},
		{`{"nest":{"a":"%DURATION%","l":["%PROTOCOL%","x",{"b":"%REQ(x-none)%"},["%REQ(x-none)%"]],"e":{},"el":[]}}`, `{"nest":{"a":13,"e":{},"el":[],"l":["HTTP/1.1","x",{"b":null},[null]]}}`, false},
		{`{"num":5.5,"bool":true,"nul":null,"num2":12345678901234567,"neg":-3,"s":""}`, `{"bool":true,"neg":-3,"nul":null,"num":5.5,"num2":12345678901234568,"s":""}`, false},
		{`{"a":"%DYNAMIC_METADATA(ns:o)%","b":"x%DYNAMIC_METADATA(ns:o)%","c":"x%DYNAMIC_METADATA(ns:f)%","d":"x%DYNAMIC_METADATA(ns:z)%"}`, `{"a":{"a":"x\"y","i":7},"b":"x{\"a\":\"x\\\"y\",\"i\":7}","c":"x1.5","d":"x-"}`, false},
		{`{"ctl":"%REQ(x-ctl)%","hi":"%REQ(x-hi)%","utf":"%REQ(x-utf)%","cut":"%REQ(x-utf):2%"}`, `{"ctl":"a\tb\"c\\d/<>&","cut":"h\u00c3","hi":"a\u00ff\u00fe\u0080b","utf":"héllo€"}`, false},
		{`{"lit":"a\u00e9\u0001\u001f\u007f\b\f\n\r\t\"\\/\u2028<%%","k\u00e9\n\"":"%PROTOCOL%"}`, "{\"ké\\n\\\"\":\"HTTP/1.1\",\"lit\":\"aé\\u0001\\u001f\x7f\\b\\f\\n\\r\\t\\\"\\\\/\u2028<%\"}", false},
		{`{"hi":"%REQ(x-hi2)%"}`, `{"hi":"\u0008\u0009\u0022\u005c\u007f\u00ff"}`, false},
		{`{}`, `{}`, false},
		{`{"a":"%REQ(x-none)%","b":"%REQ(x-a)%","c":"x%REQ(x-none)%","n":{"a":"%REQ(x-none)%"},"l":["%REQ(x-none)%","y"],"z":"%REQ(x-none)%"}`, `{"b":"abcdefgh","c":"x","l":["y"]}`, true},
		{`{"l":["%REQ(x-none)%"],"m":{"a":{"b":"%REQ(x-none)%"}},"e":{},"el":[],"n":null,"s":""}`, `{"el":[],"l":[],"s":""}`, true},
		{`{"a":"%REQ(x-none)%"}`, `{}`, true},
	} {
		j := parseJSON(t, x.in, format.Options{OmitEmpty: x.omit})
		got := string(j.AppendLog(nil, proxied()))
		if got != x.want+"\n" {
			t.Errorf("%s:\n got %s\nwant %s", x.in, got, x.want)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("%s is no JSON", got)
		}
	}
	if _, err := format.ParseJSON(&structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewStringValue("%FOO%")}}, format.Options{}); err == nil || err.Error() != "Not supported field in StreamInfo: FOO" {
		t.Error(err)
	}
	if _, err := format.ParseJSON(&structpb.Struct{Fields: map[string]*structpb.Value{"a": {}}}, format.Options{}); err == nil {
		t.Error("a field without a value passes")
	}
}

// Numbers of metadata look as in Envoy 1.40.
func TestNumbers(t *testing.T) {
	nums := []any{1e15, 1e16, 1e17, 123456789012345680000.0, 1e20, 1e21, 0.0001, 1e-5, 1e-7, 0.1, 1. / 3, 3.0, math.Copysign(0, -1), -1.5, 1e300, 5e-324, 9007199254740993.0, 1234567890123456789.0, 9.3e18, 0.000012345, 100000.5, 123456789.125, 100000.0}
	const want = "[1e+15,1e+16,1e+17,123456789012345683968,1e+20,1e+21,1e-04,1e-05,1e-07,0.1,0.3333333333333333,3,-0,-1.5,1e+300,5e-324,9007199254740992,1234567890123456768,9.3e+18,1.2345e-05,100000.5,123456789.125,1e+05]"
	list, err := structpb.NewList(nums)
	if err != nil {
		t.Fatal(err)
	}
	c := bare()
	c.Info.SetMetadata("n", "l", structpb.NewListValue(list))
	f, err := format.Parse("%DYNAMIC_METADATA(n:l)%")
	if err != nil {
		t.Fatal(err)
	}
	if got := string(f.AppendLog(nil, c)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// Whatever a client sends, a line is one JSON object in one line.
func TestAlwaysJSON(t *testing.T) {
	j := parseJSON(t, `{"a":"%REQ(x)%","b":"<%REQ(x)%|%REQ(x):3%>","c":"%QUERY_PARAMS(DECODED)%","d":"%FILTER_STATE(k)%","e":"%DYNAMIC_METADATA(n)%","f":["%REQ(x):1%"]}`, format.Options{})
	rapid.Check(t, func(t *rapid.T) {
		raw := rapid.SliceOf(rapid.Byte()).Draw(t, "value")
		c := &format.Context{Req: headers(":path", "/?"+string(raw), "x", string(raw)), Info: &filter.StreamInfo{State: map[string]any{"k": string(raw)}}}
		c.Info.SetMetadata("n", rapid.String().Draw(t, "key"), structpb.NewNumberValue(rapid.Float64().Draw(t, "number")))
		got := j.AppendLog(nil, c)
		var out map[string]any
		if err := json.Unmarshal(got, &out); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		for _, b := range got[:len(got)-1] {
			if b < 0x20 {
				t.Fatalf("%q has a control character", got)
			}
		}
	})
}
