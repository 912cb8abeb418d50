package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

const (
	// initialWindow is what both directions start with by the protocol.
	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	streamID      = 1
)

var errWindow = errors.New("the server sent more than the flow-control window allows")

// receiveWindow is how much the server may still send. The connection and its
// one stream have windows of the same size that shrink and grow together, so
// one count stands for both.
type receiveWindow struct {
	size, open, used int
	frozen           bool // never granted again: a stuck client
}

// take accounts for a DATA frame.
func (w *receiveWindow) take(n int) error {
	if n > w.open {
		return fmt.Errorf("%w: %d bytes with %d left", errWindow, n, w.open)
	}
	w.open -= n
	w.used += n
	return nil
}

// appendGrant appends the window updates that are due: none until half of the
// window is used up.
func (w *receiveWindow) appendGrant(b []byte) []byte {
	if w.used < w.size/2 || w.frozen {
		return b
	}
	b = appendWindowUpdate(b, 0, w.used)
	b = appendWindowUpdate(b, streamID, w.used)
	w.open += w.used
	w.used = 0
	return b
}

func appendWindowUpdate(b []byte, stream uint32, n int) []byte {
	b = appendFrame(b, http2.FrameWindowUpdate, 0, stream, 4)
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

// sendWindow is how much the client may still send on a connection and its one
// stream.
type sendWindow struct {
	conn, stream, initial int
}

func newSendWindow() sendWindow {
	return sendWindow{conn: initialWindow, stream: initialWindow, initial: initialWindow}
}

// allowed is how much may be sent now.
func (w *sendWindow) allowed() int { return max(0, min(w.conn, w.stream)) }

func (w *sendWindow) take(n int) {
	w.conn -= n
	w.stream -= n
}

// update handles a WINDOW_UPDATE frame.
func (w *sendWindow) update(f frame) error {
	if len(f.payload) != 4 {
		return fmt.Errorf("WINDOW_UPDATE of %d bytes", len(f.payload))
	}
	n := int(binary.BigEndian.Uint32(f.payload) &^ (1 << 31))
	v := &w.conn
	if f.stream != 0 {
		v = &w.stream
	}
	if n == 0 || *v+n > maxWindow {
		return fmt.Errorf("WINDOW_UPDATE by %d from %d", n, *v)
	}
	*v += n
	return nil
}

// settings handles a SETTINGS frame: a new initial window moves the stream's
// window by the difference, below zero if need be.
func (w *sendWindow) settings(f frame) error {
	if len(f.payload)%6 != 0 {
		return fmt.Errorf("SETTINGS of %d bytes", len(f.payload))
	}
	for b := f.payload; len(b) > 0; b = b[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(b)) != http2.SettingInitialWindowSize {
			continue
		}
		v := binary.BigEndian.Uint32(b[2:])
		if v > maxWindow {
			return fmt.Errorf("SETTINGS_INITIAL_WINDOW_SIZE %d", v)
		}
		w.stream += int(v) - w.initial
		w.initial = int(v)
	}
	return nil
}
