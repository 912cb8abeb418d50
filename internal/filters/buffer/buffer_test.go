package buffer_test

import (
	"strings"
	"testing"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/filters/buffer"
	"github.com/xebec-proxy/xebec/internal/filters/filtertest"
)

func start(t *testing.T, json string) *filtertest.Stream {
	t.Helper()
	k := buffer.Type()
	return filtertest.NewStream(1<<20, filtertest.Filter{Name: "buffer", New: filtertest.HTTP(t, k, json, &filter.Env{})})
}

// Proves HF-30.
func TestBuffer(t *testing.T) {
	k := buffer.Type()
	off, more := `{"disabled":true}`, `{"buffer":{"max_request_bytes":20}}`
	get := []string{":method", "POST", ":path", "/"}
	tests := []struct {
		name     string
		route    string
		head     []string
		parts    []string
		trailers bool
		want     string // the host's body, or "413"
		length   string
	}{
		{name: "no body", head: get, want: ""},
		{name: "whole", head: get, parts: []string{"0123456789"}, want: "0123456789", length: "10"},
		{name: "parts", head: get, parts: []string{"0123", "456789"}, want: "0123456789", length: "10"},
		{name: "too much at once", head: get, parts: []string{"0123456789a"}, want: "413"},
		{name: "too much in the end", head: get, parts: []string{"0123456789", "a"}, want: "413"},
		{name: "too much before the end", head: get, parts: []string{"0123456789", "a", "b"}, want: "413"},
		{name: "empty end", head: get, parts: []string{"0123", ""}, want: "0123", length: "4"},
		{name: "trailers", head: get, parts: []string{"0123"}, trailers: true, want: "0123", length: "4"},
		{name: "a length of its own", head: append(get, "content-length", "4"), parts: []string{"0123"}, want: "0123", length: "4"},
		{name: "off for the route", route: off, head: get, parts: []string{"0123456789", "a"}, want: "0123456789a"},
		{name: "more for the route", route: more, head: get, parts: []string{"0123456789", "a"}, want: "0123456789a", length: "11"},
		{name: "upgrade", head: append(get, "upgrade", "websocket"), parts: []string{"0123456789", "a"}, want: "0123456789a"},
		{name: "CONNECT", head: []string{":method", "CONNECT"}, parts: []string{"0123456789", "a"}, want: "0123456789a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := start(t, `{"max_request_bytes":10}`)
			if tt.route != "" {
				s.Levels = map[string][]any{"buffer": {filtertest.Route(t, k, tt.route)}}
			}
			filtertest.Headers(&s.Request, tt.head...)
			s.Chain.DecodeHeaders(&s.Request, len(tt.parts) == 0)
			for i, p := range tt.parts {
				if last := i == len(tt.parts)-1; !last && tt.length != "" && s.UpstreamHead != "" {
					t.Error("the host has the head before the end")
				}
				s.Chain.DecodeData([]byte(p), i == len(tt.parts)-1 && !tt.trailers)
			}
			if tt.trailers {
				s.Chain.DecodeTrailers(filtertest.Headers(&s.Trailers, "a", "1"))
			}
			if tt.want == "413" {
				if s.Status != 413 || s.Got != "Payload Too Large" || s.StreamInfo.Details != "request_payload_too_large" || s.UpstreamHead != "" {
					t.Errorf("%s, details %s, host %q", s, s.StreamInfo.Details, s.UpstreamHead)
				}
				return
			}
			if s.Upstream != tt.want || !s.UpstreamEnded || s.Request.Get("content-length") != tt.length {
				t.Errorf("the host got %q, ended %t, length %q", s.Upstream, s.UpstreamEnded, s.Request.Get("content-length"))
			}
		})
	}
}

func TestBufferConfig(t *testing.T) {
	k := buffer.Type()
	for json, want := range map[string]string{`{}`: "MaxRequestBytes: value is required", `{"max_request_bytes":0}`: "MaxRequestBytes: value must be greater than 0"} {
		if _, err := k.New(filtertest.Config(t, k.Config, json), &filter.Env{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", json, err)
		}
	}
	if _, err := k.ParseRoute(filtertest.Config(t, k.RouteConfig, `{}`), &filter.Env{}); err == nil {
		t.Error("a route configuration without an override is accepted")
	}
}

// A stream in the steady state allocates nothing.
func TestBufferAllocates(t *testing.T) {
	f := filtertest.HTTP(t, buffer.Type(), `{"max_request_bytes":1000}`, &filter.Env{})
	s := filtertest.NewStream(0)
	body := []byte("0123456789")
	run := func() {
		c := &s.Chain
		c.Reset(quiet{s}, 1<<20)
		c.Grow(1)
		c.Add("buffer", f)
		c.DecodeHeaders(filtertest.Headers(&s.Request, ":method", "POST"), false)
		c.DecodeData(body, false)
		c.DecodeData(body, true)
		c.Destroy()
	}
	run()
	if n := testing.AllocsPerRun(100, run); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

type quiet struct{ *filtertest.Stream }
