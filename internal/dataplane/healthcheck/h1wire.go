package healthcheck

import (
	"errors"
	"io"
	"net"

	"github.com/xebec-proxy/xebec/internal/dataplane/http1"
)

// errUnasked ends a connection on which something came that nobody had asked for.
var errUnasked = errors.New("the host sent something unasked")

// h1Wire is a connection of checks over HTTP/1.
type h1Wire struct {
	conn   net.Conn
	req    *request
	conf   *httpConfig
	verify func() bool

	enc  http1.Encoder
	dec  http1.Decoder
	in   []byte // received and not decoded
	out  []byte
	ans  answer
	last bool // the host has ended the connection
}

func newH1Wire(conn net.Conn, conf *httpConfig, req *request, o *http1.Options, verify func() bool) *h1Wire {
	w := &h1Wire{conn: conn, req: req, conf: conf, verify: verify}
	w.enc.Init(http1.Client, o)
	w.dec.Init(http1.Client, o)
	return w
}

// check implements wire.
func (w *h1Wire) check() (Result, bool) {
	w.ans.begin(w.req, w.conf.receive, w.conf.look)
	w.dec.ExpectResponseTo(w.req.method, false)
	if w.send() != nil || w.receive() != nil {
		return Result{Verdict: NetworkFailed}, false
	}
	return w.conf.judge(&w.ans, w.verify), w.dec.KeepAlive() && !w.last && len(w.in) == 0
}

func (w *h1Wire) send() error {
	w.out = w.enc.RequestHead(w.out[:0], &w.req.head, len(w.req.body) == 0)
	if n := len(w.req.body); n > 0 {
		w.out = w.enc.DataPrefix(w.out, n)
		w.out = append(w.out, w.req.body...)
		w.out = w.enc.DataSuffix(w.out)
		w.out = w.enc.End(w.out, nil)
	}
	_, err := w.conn.Write(w.out)
	return err //nolint:wrapcheck // nobody sees it
}

// receive decodes one response.
func (w *h1Wire) receive() error {
	for {
		ev, n, data, end, err := w.dec.Next(w.in, &w.ans.head)
		if err != nil {
			return err //nolint:wrapcheck // nobody sees it
		}
		switch ev {
		case http1.NeedMore:
			w.in = append(w.in[:0], w.in[n:]...)
			if err := w.read(); err != nil {
				return err
			}
			continue
		case http1.Informational:
			w.ans.head.Reset()
		case http1.Data:
			w.ans.data(data)
		case http1.Trailers, http1.End:
			end = true
		case http1.Headers:
		}
		w.in = append(w.in[:0], w.in[n:]...)
		if end {
			return nil
		}
	}
}

// readSize is how much is read at a time; what waits to be decoded is bounded by the
// decoder's limits.
const readSize = 4 << 10

func (w *h1Wire) read() error {
	at := len(w.in)
	w.in = append(w.in, make([]byte, readSize)...)
	n, err := w.conn.Read(w.in[at:])
	w.in = w.in[:at+n]
	if n > 0 || err == nil {
		return nil
	}
	if !errors.Is(err, io.EOF) || w.last {
		return err //nolint:wrapcheck // nobody sees it
	}
	w.last = true
	return w.dec.EOF() //nolint:wrapcheck // nobody sees it
}

// idle implements wire.
func (w *h1Wire) idle() error {
	var one [1]byte
	n, err := w.conn.Read(one[:])
	if n > 0 {
		return errUnasked
	}
	return err //nolint:wrapcheck // its caller looks whether it was the time
}

// lost implements wire.
func (*h1Wire) lost() bool { return false }
