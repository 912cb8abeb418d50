package healthcheck

import (
	"errors"
	"net"

	"github.com/xebec-proxy/xebec/internal/dataplane/http2"
)

// h2Wire is a connection of checks over HTTP/2, of gRPC too. One stream at a time is
// open.
type h2Wire struct {
	conn  net.Conn
	req   *request
	begin func(*answer)
	judge func(*answer) Result

	codec  http2.Conn
	out    []byte
	in     []byte
	ans    answer
	stream *http2.Stream // open
	over   bool          // the answer is whole
	broken bool          // there will be no answer
	full   bool
}

var _ http2.Handler = (*h2Wire)(nil)

func newH2Wire(conn net.Conn, req *request, o *http2.Options, begin func(*answer), judge func(*answer) Result) *h2Wire {
	w := &h2Wire{conn: conn, req: req, begin: begin, judge: judge, in: make([]byte, readSize)}
	w.codec.Init(http2.Client, o, w, &w.out)
	w.codec.Start()
	return w
}

var errBroken = errors.New("the stream broke")

// check implements wire.
func (w *h2Wire) check() (Result, bool) {
	w.begin(&w.ans)
	w.over, w.broken = false, false
	if err := w.exchange(); err != nil {
		w.giveUp()
		return Result{Verdict: NetworkFailed}, w.broken && !w.codec.GoneAway() && w.codec.Err() == nil && w.flush() == nil
	}
	r := w.judge(&w.ans)
	w.giveUp() // what of the request the host did not wait for
	return r, !w.codec.GoneAway() && w.flush() == nil
}

func (w *h2Wire) exchange() error {
	s, err := w.codec.OpenStream(&w.req.head, len(w.req.body) == 0, &w.ans.head, &w.ans.trailers, nil)
	if err != nil {
		return err //nolint:wrapcheck // nobody sees it
	}
	w.stream = s
	if len(w.req.body) > 0 {
		s.SendData(w.req.body, true)
	}
	for !w.over {
		if err := w.flush(); err != nil {
			return err
		}
		if w.broken {
			return errBroken
		}
		if w.over {
			break
		}
		if err := w.read(); err != nil {
			return err
		}
	}
	if w.ans.tooLong {
		return errBroken
	}
	return nil
}

// giveUp ends the stream if it is open still.
func (w *h2Wire) giveUp() {
	if w.stream != nil {
		w.stream.Reset(http2.Cancel)
	}
}

// read takes what the host sends next.
func (w *h2Wire) read() error {
	n, err := w.conn.Read(w.in)
	if n > 0 {
		if err := w.codec.Feed(w.in[:n]); err != nil {
			_ = w.flush() // GOAWAY
			w.codec.Close(http2.ProtocolError, "")
			return err //nolint:wrapcheck // nobody sees it
		}
		return nil
	}
	return err //nolint:wrapcheck // nobody sees it
}

// flush sends what the codec has put out.
func (w *h2Wire) flush() error {
	for len(w.out) > 0 || w.full {
		_, err := w.conn.Write(w.out)
		w.out = w.out[:0]
		if err != nil {
			return err //nolint:wrapcheck // nobody sees it
		}
		if w.full {
			w.full = false
			w.codec.Continue()
		}
	}
	return nil
}

// idle implements wire.
func (w *h2Wire) idle() error {
	for {
		if err := w.read(); err != nil {
			return err
		}
		if err := w.flush(); err != nil {
			return err
		}
		if w.codec.GoneAway() {
			return errBroken
		}
	}
}

// lost implements wire.
func (*h2Wire) lost() bool { return false }

// OnStream implements http2.Handler: a server opens no streams.
func (*h2Wire) OnStream(*http2.Stream) {}

// OnInformational implements http2.Handler.
func (*h2Wire) OnInformational(*http2.Stream) {}

// OnHeaders implements http2.Handler.
func (w *h2Wire) OnHeaders(_ *http2.Stream, end bool) {
	if end {
		w.over = true
	}
}

// OnData implements http2.Handler.
func (w *h2Wire) OnData(s *http2.Stream, b []byte, end bool) {
	w.ans.data(b)
	s.Consumed(len(b))
	if end || w.ans.tooLong {
		w.over = true
	}
}

// OnTrailers implements http2.Handler.
func (w *h2Wire) OnTrailers(*http2.Stream) { w.ans.hasTrailers, w.over = true, true }

// OnReset implements http2.Handler: a response that was whole before stays one.
func (w *h2Wire) OnReset(*http2.Stream, http2.ErrCode, bool, string) { w.broken = !w.over }

// OnWritable implements http2.Handler.
func (*h2Wire) OnWritable(*http2.Stream) {}

// OnFull implements http2.Handler.
func (w *h2Wire) OnFull() { w.full = true }

// OnClosed implements http2.Handler.
func (w *h2Wire) OnClosed(*http2.Stream) { w.stream = nil }

// OnGoAway implements http2.Handler: the check under way may end, unless the host
// says that something is wrong.
func (w *h2Wire) OnGoAway(_ uint32, code http2.ErrCode) {
	if code != http2.NoError && w.stream != nil && !w.over {
		w.broken = true
	}
}

// OnSettings implements http2.Handler.
func (*h2Wire) OnSettings() {}

// OnPingAck implements http2.Handler.
func (*h2Wire) OnPingAck([8]byte) {}
