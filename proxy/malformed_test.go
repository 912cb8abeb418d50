package proxy_test

import (
	"testing"

	"golang.org/x/net/http2"
)

const (
	keepStreams1 = "http_protocol_options: {override_stream_error_on_invalid_http_message: true},"
	keepStreams2 = "http2_protocol_options: {override_stream_error_on_invalid_http_message: true},"
	keepStreams  = "stream_error_on_invalid_http_message: true,"
)

// TestMalformedHTTP2 proves HC-09 with TestMalformedHTTP1 and TestRequestRules: a head that breaks the rules ends
// the connection with GOAWAY, and so the other streams, or its own stream only; the override wins.
func TestMalformedHTTP2(t *testing.T) {
	for name, tc := range map[string]struct {
		manager string
		goesOn  bool
	}{
		"default":        {"", false},
		"override":       {keepStreams2, true},
		"manager":        {keepStreams, true},
		"override wins":  {keepStreams + "http2_protocol_options: {override_stream_error_on_invalid_http_message: false},", false},
		"HTTP/1 differs": {keepStreams1, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := (&site{hosts: []string{silent(t)}, manager: tc.manager, routes: "{match: {prefix: /wait}, route: {cluster: back}}, " + direct}).serve(t)
			f := v.dial2(t)
			f.ask(1, "GET", "/wait", true)
			v.counts(t, "http.in.downstream_rq_active 1")
			f.ask(3, "GET", "/", true, "bad name: x")
			if !tc.goesOn {
				if g := f.goAway(); g.ErrCode != http2.ErrCodeProtocol {
					t.Errorf("GOAWAY says %v", g.ErrCode)
				}
				f.gone()
				v.counts(t, "http.in.downstream_cx_protocol_error 1", "http2.rx_messaging_error 1", "http.in.downstream_cx_active 0", "http.in.downstream_rq_active 0")
				return
			}
			f.want(3, "reset PROTOCOL_ERROR")
			f.ask(5, "GET", "/", true)
			f.want(5, "200 ok")
			v.counts(t, "http.in.downstream_cx_protocol_error 0", "http2.rx_messaging_error 1", "http.in.downstream_cx_active 1", "http.in.downstream_rq_active 1")
		})
	}
}

// TestMalformedHTTP1 partly proves HC-09: what cannot be read is answered with 400, and the connection
// closed. After a request that was read and is refused with 400 it may be kept.
func TestMalformedHTTP1(t *testing.T) {
	for name, tc := range map[string]struct {
		manager string
		goesOn  bool
	}{
		"default":        {"", false},
		"override":       {keepStreams1, true},
		"manager":        {keepStreams, true},
		"override wins":  {keepStreams + "http_protocol_options: {override_stream_error_on_invalid_http_message: false},", false},
		"HTTP/2 differs": {keepStreams2, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := (&site{routes: direct, manager: "path_with_escaped_slashes_action: REJECT_REQUEST," + tc.manager}).serve(t)
			w := v.dial(t)
			w.get("/", "bad name: x")
			if r := w.reply(); r.status != 400 || !r.close {
				t.Errorf("%v, closes %v", r, r.close)
			}
			w.ended()
			v.counts(t, "http.in.downstream_cx_protocol_error 1", "http.in.downstream_rq_4xx 1")
			w = v.dial(t)
			w.get("/a%2fb")
			if r := w.reply(); r.status != 400 || r.close == tc.goesOn {
				t.Errorf("%v, closes %v", r, r.close)
			}
			if tc.goesOn {
				w.get("/")
				w.want("200 ok")
			} else {
				w.ended()
			}
		})
	}
}
