package http1

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Proves HC-11: the methods that are taken without allow_custom_methods.
func TestMethods(t *testing.T) {
	for _, m := range []string{
		"GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "QUERY", "ACL", "BIND", "CHECKOUT", "COPY",
		"LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "MSEARCH", "NOTIFY", "PROPFIND", "PROPPATCH", "PURGE",
		"REBIND", "REPORT", "SEARCH", "SOURCE", "SUBSCRIBE", "UNBIND", "UNLINK", "UNLOCK", "UNSUBSCRIBE",
	} {
		var d Decoder
		var h header.Map
		d.Init(Server, &Options{})
		if _, _, _, _, err := d.Next([]byte(m+" / HTTP/1.1\r\nHost: a\r\n\r\n"), &h); err != nil || h.Method() != m {
			t.Errorf("%s: method %q, error %v", m, h.Method(), err)
		}
	}
	for _, m := range []string{"", "G", "GETT", "ACL BIND", "SUB", "M-SEARCH"} {
		if got, ok := knownMethod([]byte(m)); ok {
			t.Errorf("%q is taken for %q", m, got)
		}
	}
}

// Reason phrases are Envoy's: mostly those of the registry.
func TestReasons(t *testing.T) {
	special := map[int]string{
		203: "Non-Authoritative Information", 413: "Payload Too Large", 414: "URI Too Long", 416: "Range Not Satisfiable",
		418: "Unknown", 451: "Unknown", 599: "Last Unassigned Server Error Code",
	}
	for status := 100; status < 600; status++ {
		want, ok := special[status]
		if !ok {
			want = http.StatusText(status)
		}
		if want == "" {
			want = "Unknown"
		}
		if got := Reason(status); got != want {
			t.Errorf("%d is %q, want %q", status, got, want)
		}
	}
}

// An error stays, whatever is done with the decoder, until Init.
func TestErrorsStay(t *testing.T) {
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{})
	_, _, _, _, err := d.Next([]byte("GET / HTTP/1.1\n"), &h)
	var e *Error
	if !errors.As(err, &e) || e.Status != 400 || e.Flag != "DPE" || e.Error() != "http/1: a line that does not end in CRLF (http1.codec_error)" {
		t.Fatalf("got %v", err)
	}
	if _, _, _, _, again := d.Next([]byte("GET / HTTP/1.1\r\n\r\n"), &h); !errors.Is(again, err) {
		t.Errorf("then %v", again)
	}
	if got := d.EOF(); !errors.Is(got, err) || d.KeepAlive() {
		t.Errorf("EOF gives %v", got)
	}
	h.Reset()
	d.Init(Server, &Options{})
	if _, _, _, end, err := d.Next([]byte("GET / HTTP/1.1\r\n\r\n"), &h); err != nil || !end {
		t.Errorf("after Init: %v", err)
	}
}

// Proves HC-43: a caller may turn to raw data by itself.
func TestUpgraded(t *testing.T) {
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{})
	d.Upgraded()
	ev, n, data, end, err := d.Next([]byte("\x00\r\n"), &h)
	if ev != Data || n != 3 || string(data) != "\x00\r\n" || end || err != nil || d.KeepAlive() {
		t.Errorf("got %d %d %q %t %v", ev, n, data, end, err)
	}
}

func TestStarted(t *testing.T) {
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{})
	const in = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
	from := 0
	for i := range len(in) + 1 {
		_, n, _, _, err := d.Next([]byte(in[from:i]), &h)
		if from += n; err != nil || from < i && n > 0 && d.state == stLength {
			t.Fatal(err)
		}
		if want := i > 0 && i < len(in); d.Started() != want {
			t.Errorf("after %d bytes started is %t", i, d.Started())
		}
	}
}

// A response without a length to an HTTP/1.0 client ends with the connection.
func TestUntilClose(t *testing.T) {
	var e Encoder
	e.Init(Server, &Options{AcceptHTTP10: true})
	for _, c := range []struct {
		v      Version
		length string
		want   bool
	}{{HTTP10, "", true}, {HTTP10, "3", false}, {HTTP11, "", false}} {
		h := headers(":status", "200")
		if c.length != "" {
			h.Add("content-length", c.length)
		}
		e.ResponseHead(nil, h, "GET", c.v, false, false)
		if e.UntilClose() != c.want {
			t.Errorf("%s, length %q: %t", c.v, c.length, e.UntilClose())
		}
	}
}

func ExampleDecoder() {
	var d Decoder
	var h header.Map
	d.Init(Server, &Options{})
	in := []byte("POST /items HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
	for {
		ev, n, data, end, err := d.Next(in, &h)
		in = in[n:]
		switch {
		case err != nil:
			fmt.Println(err)
			return
		case ev == Headers:
			fmt.Println(h.Method(), h.Authority(), h.Path())
		case ev == Data:
			fmt.Printf("%s\n", data)
		}
		if end {
			return
		}
	}
	// Output:
	// POST example.com /items
	// hello
}
