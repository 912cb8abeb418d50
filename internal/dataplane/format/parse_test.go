package format_test

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	reqwithoutqueryv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/req_without_query/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// Proves RT-23 and AL-12: what Envoy 1.40 refuses is refused in its words.
func TestErrors(t *testing.T) {
	invalid := func(text string, at string) string {
		return "Incorrect configuration: " + text + ". Couldn't find valid command at position " + at
	}
	for text, want := range map[string]string{
		"%FOO%": "Not supported field in StreamInfo: FOO", "%VIRTUAL_HOST_NAME%": "Not supported field in StreamInfo: VIRTUAL_HOST_NAME", "%A%B%": "Not supported field in StreamInfo: A",
		"%REQUEST_TRAILER(a)%": "Not supported field in StreamInfo: REQUEST_TRAILER", "%UPSTREAM_PEER_EMAIL_SAN%": "Not supported field in StreamInfo: UPSTREAM_PEER_EMAIL_SAN",
		"%UPSTREAM_LOCAL_SUBJECT%": "Not supported field in StreamInfo: UPSTREAM_LOCAL_SUBJECT", "%REQ_WITHOUT_QUERY(a)%": "Not supported field in StreamInfo: REQ_WITHOUT_QUERY",
		"%UPSTREAM_PEER_SERIAL%": "Not supported field in StreamInfo: UPSTREAM_PEER_SERIAL", "%DOWNSTREAM_LOCAL_SERIAL%": "Not supported field in StreamInfo: DOWNSTREAM_LOCAL_SERIAL",
		"%UPSTREAM_LOCAL_ADDRESS_ENDPOINT_ID%": "Not supported field in StreamInfo: UPSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
		"%REQ(":                                invalid("%REQ(", "0"), "%": invalid("%", "0"), "a %b": invalid("a %b", "2"), "%REQ(a):x%": invalid("%REQ(a):x%", "0"), "%req(a)%": invalid("%req(a)%", "0"), "100%": invalid("100%", "3"),
		"%%%": invalid("%%%", "2"), "%REQ(a)%%": invalid("%REQ(a)%%", "8"), "%PROTOCOL": invalid("%PROTOCOL", "0"), "%REQ(a)x%": invalid("%REQ(a)x%", "0"), "%REQ(a):-1%": invalid("%REQ(a):-1%", "0"),
		"%REQ(a):99999999999999999999%": invalid("%REQ(a):99999999999999999999%", "0"), "%CUSTOM-X%": invalid("%CUSTOM-X%", "0"), "%START_TIME(\n)%": invalid("%START_TIME(\n)%", "0"), "%REQ(a):5:6%": invalid("%REQ(a):5:6%", "0"),
		"%REQ()%": "REQ requires parameters", "%REQ%": "REQ requires parameters", "%ENVIRONMENT%": "ENVIRONMENT requires parameters", "%COMMON_DURATION:5%": "COMMON_DURATION requires parameters",
		"%REQ(a?b?c)%": "More than 1 alternative header specified in token: a?b?c",
		"%REQ(a b)%":   "Invalid header configuration. Format string contains invalid characters.", "%REQ(a)(b)%": "Invalid header configuration. Format string contains invalid characters.",
		"%PROTOCOL(x)%": "PROTOCOL does not take any parameters or length", "%PROTOCOL:3%": "PROTOCOL does not take any parameters or length", "%HOSTNAME(x)%": "HOSTNAME does not take any parameters or length",
		"%START_TIME:5%": "START_TIME does not allow length to be specified.", "%GRPC_STATUS:5%": "GRPC_STATUS does not allow length to be specified.",
		"%UPSTREAM_METADATA(X):5%": "UPSTREAM_METADATA does not allow length to be specified.", "%CLUSTER_METADATA%": "CLUSTER_METADATA requires parameters",
		"%GRPC_STATUS(X)%":     "GrpcStatusFormatter only supports CAMEL_STRING, SNAKE_STRING or NUMBER. Got: X",
		"%COMMON_DURATION(X)%": "Invalid common duration configuration: X.", "%COMMON_DURATION(DS_RX_BEG:DS_RX_END:s)%": "Invalid common duration precision: s.",
		"%FILTER_STATE%":            "Invalid filter state configuration, key cannot be empty.",
		"%FILTER_STATE(a:PLAINX)%":  "Invalid filter state serialize type, only support PLAIN/TYPED/FIELD.",
		"%FILTER_STATE(a:FIELD)%":   "Invalid filter state serialize type, FIELD should be used with the field name.",
		"%FILTER_STATE(a:PLAIN:x)%": "Invalid filter state serialize type, FIELD should be used with the field name.",
		"%FILTER_STATE(a:b:c:d)%":   "Invalid filter state serialize type, only support PLAIN/TYPED/FIELD.",
		"%METADATA(FOO:a)%":         "FOO is not supported type of metadata", "%METADATA%": " is not supported type of metadata",
		"%QUERY_PARAMS(X)%": "Invalid QUERY_PARAMS option: 'X', only 'ORIG'/'DECODED' are allowed",
		"%PATH(X)%":         "Invalid PATH option: 'X', only 'WQ'/'NQ' are allowed", "%PATH(WQ:X)%": "Invalid PATH option: 'X', only 'ORIG'/'PATH'/'ORIG_OR_PATH' are allowed",
		"%REQUESTED_SERVER_NAME(X)%":           "Invalid REQUESTED_SERVER_NAME option: 'X', only 'SNI_ONLY'/'SNI_FIRST'/'HOST_FIRST' are allowed",
		"%REQUESTED_SERVER_NAME(SNI_FIRST:X)%": "Invalid REQUESTED_SERVER_NAME option: 'X', only 'ORIG_OR_HOST'/'HOST'/'ORIG' are allowed",
		"%START_TIME(%n)%":                     "Invalid header configuration. Format string contains newline.", "%EMIT_TIME(a%%n)%": "Invalid header configuration. Format string contains newline.",
		"%START_TIME(%-3En)%":               "Invalid header configuration. Format string contains newline.",
		"%COALESCE({})%":                    "COALESCE: JSON configuration must contain 'operators' array",
		`%COALESCE({"operators":[]})%`:      "COALESCE: 'operators' array must not be empty",
		`%COALESCE({"operators":[5]})%`:     "COALESCE: failed to parse operator at index 0: operator entry must be either a string (command name) or an object with 'command' field",
		`%COALESCE({"operators":["REQ"]})%`: "COALESCE: failed to parse operator at index 0: REQ requires parameters",
		`%COALESCE({"operators":["FOO"]})%`: "COALESCE: failed to parse operator at index 0: unknown command: 'FOO'",
		`%COALESCE({"operators":[{"command":"REQ","param":"a","max_length":-1}]})%`: "COALESCE: failed to parse operator at index 0: 'max_length' must be a positive integer",
	} {
		if _, err := format.Parse(text); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
	for text, want := range map[string]string{ // Xebec's own
		"%COMMON_DURATION(DS_RX_BEG:mine)%": "no filter sets instants of its own",
		"%ENVIRONMENT(X)%":                  "the environment is not known here",
	} {
		if _, err := format.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestAccepted(t *testing.T) {
	c := proxied()
	for in, want := range map[string]string{
		"": "", "plain": "plain", "%%": "%", "100%% of %REQ(x-a)%%%": "100% of abcdefgh%", "%DURATION()%": "13", "%REQ(x-a?)%": "abcdefgh", "%REQ(a%b)%": "-",
		"%START_TIME(100%%)%": "100%", "%START_TIME((x))%": "(x)", "%START_TIME(%)%": "%", "%START_TIME()%": "2026-11-21T17:35:33.741Z", "%PATH(:PATH):10%": "/rewritten",
		"%RESPONSE_CODE%%RESPONSE_FLAGS%": "200-", "a%REQ(x-none)%b%DURATION%": "a-b13",
	} {
		f, err := format.Parse(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := string(f.AppendLog([]byte("> "), c)); got != "> "+want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// Proves RT-23: in header values an operator without a value gives nothing.
func TestHeaderValues(t *testing.T) {
	c := proxied()
	for in, want := range map[string]string{ // as Envoy 1.40 sent them
		"[%REQ(x-none)%]": "[]", "%REQ(x-none)%": "", "%RESPONSE_FLAGS%": "-", "%REQ(x-empty)%": "", "%GRPC_STATUS%": "", "%PROTOCOL%": "HTTP/1.1",
		"%ROUTE_NAME%": "rn", "%START_TIME%": "2026-11-21T17:35:33.741Z", "%ACCESS_LOG_TYPE%": "NotSet", "%RESPONSE_CODE%": "200", "%UPSTREAM_HOST%": "127.0.0.1:18784",
		"%LOCAL_REPLY_BODY%": "", "%FILTER_STATE(my.key)%": `"fsval"`, "constant": "constant", "": "",
		"%DYNAMIC_METADATA(ns:o)%": `{"a":"x\"y","i":7}`, "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%": "10.1.10.23",
	} {
		f, err := format.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		got, some := f.Append([]byte("> "), c.Req, c.Resp, c.Info)
		if string(got) != "> "+want || some != (want != "") {
			t.Errorf("%s: %q, %t, want %q", in, got, some, want)
		}
	}
}

func TestStatic(t *testing.T) {
	for in, want := range map[string]bool{"": true, "abc%%": true, "%PROTOCOL%": false, "a%PROTOCOL%": false} {
		f, err := format.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := f.Static(); ok != want || ok && s != strings.ReplaceAll(in, "%%", "%") {
			t.Errorf("%q: %q, %t", in, s, ok)
		}
	}
}

// Any text with its percent signs doubled is a literal.
func TestLiterals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		f, err := format.Parse(strings.ReplaceAll(s, "%", "%%"))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.AppendLog(nil, bare())); got != s {
			t.Fatalf("%q became %q", s, got)
		}
	})
}

// Proves AL-03: the forms of log_format.
func TestFormatString(t *testing.T) {
	formatter, err := anypb.New(&reqwithoutqueryv3.ReqWithoutQuery{})
	if err != nil {
		t.Fatal(err)
	}
	source := func(s *corev3.DataSource) *corev3.SubstitutionFormatString {
		return &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: s}}
	}
	o := format.Options{
		Environment: func(n string) (string, bool) { return "%PROTOCOL%", n == "F" },
		ReadFile:    func(n string) ([]byte, error) { return []byte(n + " %PROTOCOL%"), nil },
	}
	withFormatter := source(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "%REQ_WITHOUT_QUERY(:path)% %REQ_WITHOUT_QUERY(x-none?:path):3% %REQ_WITHOUT_QUERY(x-none)%"}})
	withFormatter.Formatters = []*corev3.TypedExtensionConfig{{Name: "f", TypedConfig: formatter}}
	omit := source(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "[%REQ(x-none)%] [%RESPONSE_FLAGS%] [%REQ(x-a)%]"}})
	omit.OmitEmptyValues = true
	for i, x := range []struct {
		f    *corev3.SubstitutionFormatString
		want string
	}{
		{&corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_TextFormat{TextFormat: "%DURATION%"}}, "13"}, //nolint:staticcheck // deprecated, and in use
		{source(&corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte("%DURATION%")}}), "13"},
		{source(&corev3.DataSource{Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: "F"}}), "HTTP/1.1"},
		{source(&corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: "/f"}}), "/f HTTP/1.1"},
		{withFormatter, "/rewritten /re -"},
		{omit, "[] [-] [abcdefgh]"},
	} {
		l, err := format.ParseString(x.f, o)
		if err != nil {
			t.Fatal(i, err)
		}
		if got := string(l.AppendLog(nil, proxied())); got != x.want {
			t.Errorf("%d: %q, want %q", i, got, x.want)
		}
	}
	other := source(&corev3.DataSource{Specifier: &corev3.DataSource_InlineString{}})
	other.Formatters = []*corev3.TypedExtensionConfig{{Name: "cel", TypedConfig: &anypb.Any{TypeUrl: "type.googleapis.com/x.Cel"}}}
	for want, f := range map[string]*corev3.SubstitutionFormatString{
		"formatters[0]: Formatter not found: cel (type.googleapis.com/x.Cel)":   other,
		"text_format_source: Environment variable doesn't exist: NOPE":          source(&corev3.DataSource{Specifier: &corev3.DataSource_EnvironmentVariable{EnvironmentVariable: "NOPE"}}),
		"no format is given: write text_format_source or json_format":           {},
		"text_format_source: it has no source: write inline_string or filename": source(&corev3.DataSource{}),
	} {
		if _, err := format.ParseString(f, o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := format.ParseString(source(&corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: t.TempDir() + "/no"}}), format.Options{}); err == nil || !strings.HasPrefix(err.Error(), "text_format_source: Invalid path: ") {
		t.Error(err)
	}
}

func TestBody(t *testing.T) {
	f, err := format.Parse("%REQ(x-none)% %RESPONSE_CODE% <%LOCAL_REPLY_BODY%>")
	if err != nil {
		t.Fatal(err)
	}
	c := proxied()
	c.Info.LocalReplyBody = "no"
	if got, some := (format.Body{Line: f}).Append(nil, c.Req, c.Resp, c.Info); string(got) != "- 200 <no>" || !some {
		t.Errorf("%q, %t", got, some)
	}
	if got, _ := f.Append(nil, c.Req, c.Resp, c.Info); string(got) != " 200 <no>" {
		t.Errorf("as a header: %q", got)
	}
	if got := f.AppendLog(nil, c); string(got) != "- 200 <>" {
		t.Errorf("in a log, where Envoy has none: %q", got)
	}
}
