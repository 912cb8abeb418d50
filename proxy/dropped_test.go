package proxy_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// fate says how the proxy ends a connection that has sent something: by an end
// or by a reset.
func fate(t *testing.T, address, text string, end bool) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return ending(err)
	}
	defer conn.Close()
	c, _ := conn.(*net.TCPConn)
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err = io.WriteString(c, text); err == nil && end {
		err = c.CloseWrite()
	}
	if err == nil {
		_, err = io.Copy(io.Discard, c)
	}
	return ending(err)
}

func ending(err error) string {
	switch {
	case err == nil:
		return "end"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ENOTCONN):
		return "reset"
	}
	return err.Error()
}

// Partly proves FC-09, as measured on Envoy: a connection that comes to nothing is
// reset if the client has sent what nobody took, and ended otherwise.
func TestDroppedConnections(t *testing.T) {
	const elsewhere = "{filter_chain_match: {source_prefix_ranges: [{address_prefix: 10.0.0.0, prefix_len: 8}]}, filters: [" + echoFilter + "]}"
	const inspector = `{name: inspector, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.http_inspector.v3.HttpInspector}}`
	r := start(t, bootstrapOf(
		listenChains("none", elsewhere)+
			listenChains("header-none", elsewhere, "listener_filters: ["+proxyHeader+"]")+
			listen("header", echoFilter, "listener_filters_timeout: 0.2s", "listener_filters: ["+proxyHeader+"]")+
			listen("empty", "", "listener_filters: ["+inspector+"]"), ""))
	const head = "PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n"
	for _, test := range []struct {
		what, listener, text string
		end                  bool
		want                 string
	}{
		{"no chain", "none", "", false, "end"},
		{"no chain, the header is taken", "header-none", head, false, "end"},
		{"no chain, more than the header", "header-none", head + "abc", false, "reset"},
		{"not a header", "header", "GARBAGE GARBAGE GARBAGE\r\n\r\n", false, "reset"},
		{"half a header, then silence", "header", "PROXY TC", false, "reset"},
		{"half a header, then the end", "header", "PROXY TC", true, "reset"},
		{"silence", "header", "", false, "end"},
		{"the end", "header", "", true, "end"},
		{"no filters", "empty", "GET / HTTP/1.1\r\n\r\n", false, "reset"},
		{"no filters, half a line", "empty", "GE", true, "reset"},
	} {
		if got := fate(t, r.at(test.listener), test.text, test.end); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}
