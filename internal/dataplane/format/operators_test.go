package format_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

const certText = "-----BEGIN%20CERTIFICATE-----%0A"

// null stands for no value: "-" in a text, null in JSON.
const null = "\x00"

// operators are what Envoy 1.40 logged for a request such as proxied; a number
// or boolean is written as JSON, a text in quotes.
func operators() map[string]string {
	all := map[string]string{
		// AL-07
		"START_TIME": `"2026-11-21T17:35:33.741Z"`, "EMIT_TIME": `"2026-11-21T17:35:33.742Z"`,
		"DURATION": `13`, "REQUEST_DURATION": `1`, "REQUEST_TX_DURATION": `4`, "RESPONSE_DURATION": `7`, "RESPONSE_TX_DURATION": `5`,
		"ROUNDTRIP_DURATION": null, "DOWNSTREAM_HANDSHAKE_DURATION": `5`, "UPSTREAM_CONNECTION_POOL_READY_DURATION": `2`,
		"COMMON_DURATION(DS_RX_BEG:DS_RX_END)": `1`, "COMMON_DURATION(DS_RX_BEG:US_CX_BEG:us)": `400`, "COMMON_DURATION(US_CX_BEG:US_CX_END:ns)": `600000`,
		"COMMON_DURATION(US_CX_END:US_HS_END:ms)": `1`, "COMMON_DURATION(US_TX_BEG:US_TX_END:ms)": `1`, "COMMON_DURATION(US_RX_BEG:US_RX_END:ms)": `1`,
		"COMMON_DURATION(US_RX_BEG:US_RX_BODY_BEG:ms)": `1`, "COMMON_DURATION(DS_TX_BEG:DS_TX_END:ms)": `3`, "COMMON_DURATION(DS_TX_END:DS_TX_BEG:ms)": null, "COMMON_DURATION(DS_CX_BEG:DS_RX_END:ms)": null,
		// AL-08
		"BYTES_RECEIVED": `4`, "BYTES_SENT": `12`, "BYTES_RETRANSMITTED": `0`, "PACKETS_RETRANSMITTED": `0`,
		"UPSTREAM_WIRE_BYTES_RECEIVED": `129`, "UPSTREAM_WIRE_BYTES_SENT": `249`,
		"RESPONSE_HEADERS_BYTES": `40`, "RESPONSE_TRAILERS_BYTES": `5`,
		// AL-09
		"PROTOCOL": `"HTTP/1.1"`, "UPSTREAM_PROTOCOL": `"HTTP/1.1"`, "RESPONSE_CODE": `200`,
		"RESPONSE_CODE_DETAILS": `"via_upstream"`, "RESPONSE_CODE_DETAILS(ALLOW_WHITESPACES)": `"via upstream"`, "RESPONSE_CODE_DETAILS(foo)": `"via_upstream"`,
		"CONNECTION_TERMINATION_DETAILS": `"why not"`, "RESPONSE_FLAGS": `"-"`, "RESPONSE_FLAGS_LONG": `"-"`,
		"GRPC_STATUS": null, "GRPC_STATUS_NUMBER": null, "ROUTE_NAME": `"rn"`, "VIRTUAL_CLUSTER_NAME": `"vc"`, "LOCAL_REPLY_BODY": `""`,
		"ACCESS_LOG_TYPE": `"DownstreamEnd"`, "UPSTREAM_REQUEST_ATTEMPT_COUNT": `2`,
		// AL-12
		"HOSTNAME": `"vm"`, "FILTER_CHAIN_NAME": `"fc"`, "TRACE_ID": null, "SPAN_ID": null, "CUSTOM_FLAGS": `""`,
		"ENVIRONMENT(FOOVAR)": `"fooval"`, "ENVIRONMENT(NOVAR)": `"-"`, "ENVIRONMENT(FOOVAR):2": `"fo"`,
		"CLUSTER_METADATA(ns:k)": `"clv"`, "METADATA(CLUSTER:ns:k)": `"clv"`, "METADATA(ROUTE:ns:k)": `"rv"`, "METADATA(VIRTUAL_HOST:ns:k)": `"vhv"`,
		"METADATA(LISTENER:ns:k)": `"lv"`, "METADATA(LISTENER_FILTER_CHAIN:ns:k)": `"fcv"`, "METADATA(ROUTE:nope)": null,
		"UPSTREAM_METADATA(ns:k)": `{"deep":[1,2.5,"x",true,null]}`, "METADATA(UPSTREAM_HOST:ns:k:deep)": `[1,2.5,"x",true,null]`,
		"FILTER_STATE(my.key:PLAIN)": `"fsval"`, "FILTER_STATE(no.key)": null, "FILTER_STATE(my.key:FIELD:x)": null, "UPSTREAM_FILTER_STATE(my.key)": null,
		`COALESCE({"operators":["TRACE_ID",{"command":"REQ","param":"x-a","max_length":4}]}):3`: `"abc"`,
		`COALESCE({"operators":["TRACE_ID",{"command":"REQ","param":"x-empty"},"PROTOCOL"]})`:   `""`,
		`COALESCE({"operators":["TRACE_ID"]})`:                                                  null, `COALESCE({"operators":["TRACE_ID","DURATION"]})`: `13`,
	}
	maps.Copy(all, requestOperators())
	maps.Copy(all, addressOperators())
	maps.Copy(all, tlsOperators())
	return all
}

func requestOperators() map[string]string { // AL-06 and metadata
	return map[string]string{
		"REQ(x-a)": `"abcdefgh"`, "REQUEST_HEADER(X-A)": `"abcdefgh"`, "REQ(x-empty)": `""`, "REQ(x-none)": null, "REQ(x-a):3": `"abc"`, "REQ(x-a):0": `""`, "REQ(x-a):99": `"abcdefgh"`,
		"REQ(x-none?x-a)": `"abcdefgh"`, "REQ(x-empty?x-a)": `""`, "REQ(x-multi)": `"1"`, "REQ(x-none?x-nope)": null, "REQ(?x-a)": `"abcdefgh"`,
		"RESP(x-envoy-upstream-service-time)": `"5"`, "RESPONSE_HEADER(nope)": null, "TRAILER(x-t)": `"tr"`, "RESPONSE_TRAILER(X-T):1": `"t"`,
		"PATH": `"/some/path?q=va%20lue&e=&d=%41%2f&q=2&n"`, "PATH(NQ)": `"/some/path"`, "PATH(NQ:ORIG)": `"/some/path"`, "PATH(NQ:PATH)": `"/rewritten"`, "PATH:3": `"/so"`,
		"QUERY_PARAM(q)": `"va lue"`, "QUERY_PARAM(e)": `""`, "QUERY_PARAM(n)": `""`, "QUERY_PARAM(d)": `"A/"`, "QUERY_PARAM(q):2": `"va"`, "QUERY_PARAM(x)": null,
		"QUERY_PARAMS": `"q=va%20lue&e=&d=%41%2f&q=2&n"`, "QUERY_PARAMS(DECODED)": `"q=va%20lue&e=&d=A/&q=2&n"`, "QUERY_PARAMS(ORIG):4": `"q=va"`,
		"STREAM_ID": `"58260856-8f00"`, "REQUESTED_SERVER_NAME": `"sni.example"`, "REQUESTED_SERVER_NAME(HOST_FIRST)": `"h.example:81"`,
		"REQUESTED_SERVER_NAME(HOST_FIRST:ORIG)": `"sni.example"`, "REQUESTED_SERVER_NAME(SNI_FIRST:HOST)": `"sni.example"`,
		"DYNAMIC_METADATA(ns)":   `{"b":true,"big":1e+21,"es":"","f":1.5,"l":[1,"a",null],"n":42,"o":{"a":"x\"y","i":7},"s":"hello","z":null}`,
		"DYNAMIC_METADATA(ns:s)": `"hello"`, "DYNAMIC_METADATA(ns:n)": `42`, "DYNAMIC_METADATA(ns:f)": `1.5`, "DYNAMIC_METADATA(ns:big)": `1e+21`, "DYNAMIC_METADATA(ns:b)": `true`,
		"DYNAMIC_METADATA(ns:l)": `[1,"a",null]`, "DYNAMIC_METADATA(ns:o)": `{"a":"x\"y","i":7}`, "DYNAMIC_METADATA(ns:o:i)": `7`, "DYNAMIC_METADATA(ns:z)": null,
		"DYNAMIC_METADATA(ns:es)": `""`, "DYNAMIC_METADATA(nope)": null, "DYNAMIC_METADATA(ns:nope)": null, "DYNAMIC_METADATA(ns:s:x)": null, "METADATA(DYNAMIC:ns:s):2": `"he"`,
	}
}

func addressOperators() map[string]string { // AL-10, AL-11
	return map[string]string{
		"CONNECTION_ID": `8`, "DOWNSTREAM_LOCAL_ADDRESS": `"127.0.0.1:18782"`, "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": `"127.0.0.1"`, "DOWNSTREAM_LOCAL_PORT": `18782`,
		"DOWNSTREAM_REMOTE_ADDRESS": `"10.1.10.23:49346"`, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": `"10.1.10.23"`, "DOWNSTREAM_REMOTE_PORT": `49346`,
		"DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(16)": `"10.1.0.0/16"`, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(0)": `"0.0.0.0/0"`,
		"DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(33)": `"10.1.10.23/32"`, "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(X)": `"10.1.10.23"`,
		"DOWNSTREAM_DIRECT_LOCAL_ADDRESS": `"127.0.0.2:18782"`, "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT": `"127.0.0.2"`, "DOWNSTREAM_DIRECT_LOCAL_PORT": `18782`,
		"DOWNSTREAM_DIRECT_REMOTE_ADDRESS": `"[2001:db8:1:2:3:4:5:6]:40"`, "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT": `"2001:db8:1:2:3:4:5:6"`, "DOWNSTREAM_DIRECT_REMOTE_PORT": `40`,
		"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT(64)": `"2001:db8:1:2::/64"`,
		"DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID":              `""`, "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID": `""`, "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID": `""`,
		"DOWNSTREAM_TRANSPORT_FAILURE_REASON": null, "DOWNSTREAM_LOCAL_CLOSE_REASON": null, "DOWNSTREAM_DETECTED_CLOSE_TYPE": `"Normal"`,
		"UPSTREAM_HOST": `"127.0.0.1:18784"`, "UPSTREAM_HOST_NAME": `"hosty"`, "UPSTREAM_HOST_NAME_WITHOUT_PORT": `"hosty"`, "UPSTREAM_CLUSTER": `"tls_alt"`, "UPSTREAM_CLUSTER_RAW": `"tls"`,
		"UPSTREAM_LOCAL_ADDRESS": `"127.0.0.1:51992"`, "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT": `"127.0.0.1"`, "UPSTREAM_LOCAL_PORT": `51992`,
		"UPSTREAM_REMOTE_ADDRESS": `"127.0.0.1:18784"`, "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT": `"127.0.0.1"`, "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT(8)": `"127.0.0.0/8"`, "UPSTREAM_REMOTE_PORT": `18784`,
		"UPSTREAM_TRANSPORT_FAILURE_REASON": null, "UPSTREAM_LOCAL_CLOSE_REASON": null, "UPSTREAM_DETECTED_CLOSE_TYPE": `"Normal"`, "UPSTREAM_CONNECTION_ID": `9`,
		"UPSTREAM_HOSTS_ATTEMPTED": `"127.0.0.1:18783,[::1]:18784"`, "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT": `"127.0.0.1,::1"`,
		"UPSTREAM_HOST_NAMES_ATTEMPTED": `"127.0.0.1:18783,h:80"`, "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT": `"127.0.0.1,h"`, "UPSTREAM_CONNECTION_IDS_ATTEMPTED": `"7,9"`,
	}
}

func tlsOperators() map[string]string { // AL-10, AL-11
	all := map[string]string{
		"DOWNSTREAM_TLS_VERSION": `"TLSv1.3"`, "DOWNSTREAM_TLS_CIPHER": `"TLS_AES_256_GCM_SHA384"`, "DOWNSTREAM_TLS_GROUP": `"X25519"`, "DOWNSTREAM_TLS_SESSION_ID": null,
		"DOWNSTREAM_LOCAL_SUBJECT": `"CN=srv,O=My\\, Org"`, "DOWNSTREAM_PEER_SUBJECT": `"CN=cli,O=My\\, Org"`, "DOWNSTREAM_PEER_ISSUER": `"CN=ca"`,
		"DOWNSTREAM_PEER_SERIAL": `"3a68"`, "DOWNSTREAM_PEER_FINGERPRINT_256": `"c399"`, "DOWNSTREAM_PEER_FINGERPRINT_1": `"9319"`, "DOWNSTREAM_PEER_CERT": `"` + certText + `"`,
		"DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256": `"c399,2479"`, "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1": `"9319,aaaa"`, "DOWNSTREAM_PEER_CHAIN_SERIALS": `"3a68,3db6"`,
		"DOWNSTREAM_PEER_CERT_V_START": `"2026-11-21T17:35:06.000Z"`, "DOWNSTREAM_PEER_CERT_V_END": `"2027-01-10T17:35:06.000Z"`, "DOWNSTREAM_PEER_CERT_V_START(%Y)": `"2026"`,
		"UPSTREAM_TLS_VERSION": `"TLSv1.2"`, "UPSTREAM_TLS_CIPHER": `"ECDHE-ECDSA-AES128-GCM-SHA256"`, "UPSTREAM_TLS_GROUP": `"X25519"`, "UPSTREAM_TLS_SESSION_ID": `"427b"`, "UPSTREAM_SERVER_NAME": `"up.example"`,
		"UPSTREAM_PEER_SUBJECT": `"CN=srv,O=My\\, Org"`, "UPSTREAM_PEER_ISSUER": `"CN=ca"`, "UPSTREAM_PEER_CERT": `"` + certText + `"`,
		"UPSTREAM_PEER_CERT_V_START": `"2026-11-21T17:35:06.000Z"`, "UPSTREAM_PEER_CERT_V_END": `"2027-01-10T17:35:06.000Z"`,
	}
	for _, of := range []string{"DOWNSTREAM_PEER_", "DOWNSTREAM_LOCAL_", "UPSTREAM_PEER_", "UPSTREAM_LOCAL_"} {
		all[of+"URI_SAN"], all[of+"DNS_SAN"], all[of+"IP_SAN"] = `"spiffe://x/y,spiffe://x/z"`, `"a.example,b.example"`, `"10.0.0.1"`
		if strings.HasPrefix(of, "DOWNSTREAM_") {
			all[of+"EMAIL_SAN"], all[of+"OTHERNAME_SAN"] = `"me@x.org"`, `"other"`
		}
	}
	return all
}

// Proves AL-06, AL-07, AL-08, AL-09, AL-10 and AL-11: every operator has Envoy's
// value, in JSON with its type.
func TestOperators(t *testing.T) {
	c := proxied()
	for name, want := range operators() {
		j, err := format.ParseJSON(&structpb.Struct{Fields: map[string]*structpb.Value{"v": structpb.NewStringValue("%" + name + "%")}}, options())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		wantJSON := want
		if want == null {
			wantJSON = "null"
		}
		if got, wantLine := string(j.AppendLog(nil, c)), `{"v":`+wantJSON+"}\n"; got != wantLine {
			t.Errorf("%s: JSON %s, want %s", name, got, wantLine)
		}
		f, err := format.ParseWith("<%"+name+"%>", options())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, wantText := string(f.AppendLog(nil, c)), "<"+text(t, want)+">"; got != wantText {
			t.Errorf("%s: text %q, want %q", name, got, wantText)
		}
	}
}

// text is a JSON value as a text format shows it.
func text(t *testing.T, v string) string {
	t.Helper()
	if v == null {
		return "-"
	}
	var s string
	if v[0] != '"' {
		return v
	}
	if err := json.Unmarshal([]byte(v), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// Without data every operator has the value that Envoy gives it.
func TestOperatorsWithoutData(t *testing.T) {
	always := map[string]string{
		"START_TIME": "2026-01-02T03:04:05.000Z", "EMIT_TIME": "2026-01-02T03:04:05.000Z", "RESPONSE_FLAGS": "-", "HOSTNAME": "vm", "ENVIRONMENT(FOOVAR)": "fooval", "ENVIRONMENT(FOOVAR):2": "fo",
		"LOCAL_REPLY_BODY": "", "CUSTOM_FLAGS": "", "ACCESS_LOG_TYPE": "NotSet", "DOWNSTREAM_DETECTED_CLOSE_TYPE": "Normal", `COALESCE({"operators":["TRACE_ID","DURATION"]})`: "0",
	}
	zero := regexp.MustCompile(`BYTES_|^DURATION$|^RESPONSE_CODE$|ATTEMPT_COUNT$|^(UPSTREAM_)?CONNECTION_ID$|_BYTES$|^PACKETS_`)
	for name := range operators() {
		want, ok := always[name]
		switch {
		case ok:
		case zero.MatchString(name):
			want = "0"
		default:
			want = "-"
		}
		if strings.HasPrefix(name, "COMMON_DURATION(DS_RX_BEG:US_CX_BEG") {
			want = "-"
		}
		f, err := format.ParseWith("%"+name+"%", options())
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.AppendLog(nil, bare())); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		f.AppendLog(nil, &format.Context{}) // nothing at all does not panic
	}
}

func TestRequestSizeCountsTheMap(t *testing.T) {
	c := proxied()
	f, err := format.Parse("%REQUEST_HEADERS_BYTES%")
	if err != nil {
		t.Fatal(err)
	}
	c.Req = headers(":method", "GET", "a", "bc")
	if got := string(f.AppendLog(nil, c)); got != "13" {
		t.Errorf("got %s, want 13", got)
	}
}

func TestUniqueID(t *testing.T) {
	f, err := format.Parse("%UNIQUE_ID%")
	if err != nil {
		t.Fatal(err)
	}
	a, b := string(f.AppendLog(nil, bare())), string(f.AppendLog(nil, bare()))
	if a == b || !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(a) {
		t.Errorf("%s and %s are not two random UUIDs", a, b)
	}
}

// A cut applies to the text of a value; in JSON only to strings.
func TestCutOfValues(t *testing.T) {
	for name, want := range map[string][2]string{
		"DYNAMIC_METADATA(ns:s):2": {"he", `"he"`}, "DYNAMIC_METADATA(ns:n):1": {"4", "42"}, "DYNAMIC_METADATA(ns:o):2": {`{"`, `{"a":"x\"y","i":7}`},
		"FILTER_STATE(my.key:PLAIN):2": {"fs", `"fs"`}, "FILTER_STATE(my.key:TYPED)": {`"fsval"`, `"fsval"`}, "FILTER_STATE(my.key)": {`"fsval"`, `"fsval"`},
		"FILTER_STATE(my.key):2": {`"f`, `"fsval"`},
	} {
		f, err := format.Parse("%" + name + "%")
		if err != nil {
			t.Fatal(err)
		}
		j, err := format.ParseJSON(&structpb.Struct{Fields: map[string]*structpb.Value{"": structpb.NewStringValue("%" + name + "%")}}, format.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := [2]string{string(f.AppendLog(nil, proxied())), strings.TrimSuffix(strings.TrimPrefix(string(j.AppendLog(nil, proxied())), `{"":`), "}\n")}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// Proves AL-09: the status of gRPC requests, also where only HTTP has one.
func TestGRPCStatus(t *testing.T) {
	f, err := format.Parse("%GRPC_STATUS% %GRPC_STATUS(SNAKE_STRING)% %GRPC_STATUS(NUMBER)% %GRPC_STATUS_NUMBER%")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		contentType, trailer, head string
		code                       int
		want                       string
	}{
		{"application/grpc", "14", "", 200, "Unavailable UNAVAILABLE 14 14"},
		{"application/grpc+proto", "", "1", 200, "Canceled CANCELLED 1 1"},
		{"application/grpc", "0", "3", 200, "OK OK 0 0"},
		{"application/grpc", "", "", 404, "Unimplemented UNIMPLEMENTED 12 12"},
		{"application/grpc", "", "", 200, "Unknown UNKNOWN 2 2"},
		{"application/grpc", "99", "", 200, "99 99 99 99"},
		{"application/grpc", "x", "", 200, "-1 -1 -1 -1"},
		{"application/grpc-web", "14", "", 200, "- - - -"},
		{"text/plain", "14", "", 200, "- - - -"},
		{"application/grpc", "", "", 0, "- - - -"},
	} {
		c := bare()
		c.Req = headers(":path", "/", "content-type", x.contentType)
		if x.trailer != "" {
			c.RespTrailers.Add("grpc-status", x.trailer)
		}
		if x.head != "" {
			c.Resp.Add("grpc-status", x.head)
		}
		c.Info.ResponseCode = x.code
		if got := string(f.AppendLog(nil, c)); got != x.want {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

// The names that Envoy's documentation lists all parse, or are refused by name.
func TestKnownNames(t *testing.T) {
	refused := []string{
		"CEL", "TYPED_CEL", "TLS_JA3_FINGERPRINT", "TLS_JA4_FINGERPRINT", "XFCC_VALUE", "DOWNSTREAM_CX_RTT", "ROUTE_RESOLUTION_COUNT", "ROUTE_RESOLUTION_TIME_US",
		"DOWNSTREAM_WIRE_BYTES_RECEIVED", "DOWNSTREAM_WIRE_BYTES_SENT", "DOWNSTREAM_HEADER_BYTES_SENT", "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED", "DOWNSTREAM_PEER_ISSUER_SERIAL",
	}
	for _, n := range refused {
		if _, err := format.Parse("%" + n + "%"); err == nil || !strings.Contains(err.Error(), "%"+n+"% is not built") {
			t.Errorf("%s: %v", n, err)
		}
	}
	names := slices.Sorted(maps.Keys(operators()))
	if len(names) < 170 {
		t.Errorf("only %d operators are tested", len(names))
	}
	for _, n := range []string{"START_TIME_LOCAL", "EMIT_TIME_LOCAL", "UNIQUE_ID", "REQUEST_HEADERS_BYTES"} {
		if _, err := format.Parse("%" + n + "%"); err != nil {
			t.Error(err)
		}
	}
}

// Escapes in queries are undone as Envoy 1.40 does.
func TestQueryEscapes(t *testing.T) {
	for path, want := range map[string][3]string{ // q, DECODED, cut
		"/?x%20y=1&z%41=2&z%2541=3&%zz=%4": {"-", "x%20y=1&zA=2&z%41=3&zz=%4", "x%2"},
		"/?q=%zz%4":                        {"%zz%4", "q=zz%4", "q=z"},
		"/?a=b?c=%41&q=1?2":                {"1?2", "a=b?c=A&q=1?2", "a=b"},
		"/?x+a=1+2%2b":                     {"-", "x+a=1+2+", "x+a"},
		"/?q=%20%21%22%23%3c%3d%3e%3f%5b%5c%5d%5e%5f%60%7a%7b%7c%7d%7e%7f%80": {" !\"#<=>?[\\]^_`z{|}~\x7f\x80", "q=%20!%22#%3c=%3e?[%5c]%5e_`z%7b%7c%7d~%7f%80", "q=%"},
	} {
		c := bare()
		c.Req = headers(":path", path)
		f, err := format.Parse("%QUERY_PARAM(q)%\n%QUERY_PARAMS(DECODED)%\n%QUERY_PARAMS(DECODED):3%")
		if err != nil {
			t.Fatal(err)
		}
		if got := string(f.AppendLog(nil, c)); got != strings.Join(want[:], "\n") {
			t.Errorf("%s: %q", path, got)
		}
	}
}

// Proves AL-13: names in Envoy's order, of which only that of URX depends on
// the protocol.
func TestFlags(t *testing.T) {
	f, err := format.Parse("%RESPONSE_FLAGS% %RESPONSE_FLAGS_LONG%")
	if err != nil {
		t.Fatal(err)
	}
	const urx = filter.FlagUpstreamRetryLimitExceeded
	for _, x := range []struct {
		flags    filter.Flags
		protocol filter.Protocol
		want     string
	}{
		{0, filter.HTTP11, "- -"},
		{urx, filter.HTTP11, "URX UpstreamRetryLimitExceeded"},
		{urx | filter.FlagUpstreamConnectionFailure, filter.HTTP2, "URX,UF UpstreamRetryLimitExceeded,UpstreamConnectionFailure"},
		{urx | filter.FlagUpstreamConnectionFailure, filter.NoProtocol, "UF,URX UpstreamConnectionFailure,UpstreamRetryLimitExceeded"},
		{filter.FlagDelayInjected | filter.FlagFaultInjected, filter.HTTP11, "DI,FI DelayInjected,FaultInjected"},
	} {
		c := bare()
		c.Info.Flags, c.Info.Protocol = x.flags, x.protocol
		if got := string(f.AppendLog(nil, c)); got != x.want {
			t.Errorf("%v: %q, want %q", x.flags, got, x.want)
		}
	}
}
