package format_test

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// Any format either is refused or writes lines, of any stream, without a panic;
// as a field of a json_format it writes JSON.
func FuzzFormat(f *testing.F) {
	for name := range operators() {
		f.Add("a%"+name+"%%%", "value")
	}
	f.Add("%START_TIME(%E*S %:::z %^#_-0a %5f)%", "\xff")
	f.Add("%START_TIME_LOCAL(%999999999Y%E15f)%", "")
	f.Fuzz(func(t *testing.T, text, value string) {
		parsed, err := format.ParseWith(text, options())
		j, jerr := format.ParseJSON(&structpb.Struct{Fields: map[string]*structpb.Value{value: structpb.NewStringValue(text)}}, options())
		if (err == nil) != (jerr == nil) {
			t.Fatalf("as a text: %v, in JSON: %v", err, jerr)
		}
		if err != nil {
			return
		}
		full := proxied()
		full.Req.Set("x-a", value)
		full.Req.Set(":path", value)
		full.Info.Details = value
		for _, c := range []*format.Context{full, bare(), {}} {
			parsed.AppendLog(nil, c)
			parsed.Append(nil, c.Req, c.Resp, c.Info)
			if got := j.AppendLog(nil, c); !json.Valid(got) {
				t.Fatalf("%q is no JSON", got)
			}
		}
	})
}
