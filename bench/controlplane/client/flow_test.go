package client

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

func TestReceiveWindowIsGrantedAgainWhenHalfOfItIsUsed(t *testing.T) {
	w := receiveWindow{size: 100, open: 100}
	take := func(n int) []byte {
		t.Helper()
		if err := w.take(n); err != nil {
			t.Fatal(err)
		}
		return w.appendGrant(nil)
	}
	if b := take(49); len(b) != 0 {
		t.Errorf("after 49 of 100: granted %x", b)
	}
	want := written(t, func(f *http2.Framer) error {
		return errors.Join(f.WriteWindowUpdate(0, 60), f.WriteWindowUpdate(1, 60))
	})
	if b := take(11); !bytes.Equal(b, want) {
		t.Errorf("after 60 of 100: granted %x, want %x", b, want)
	}
	if w.open != 100 {
		t.Errorf("the window is %d after the grant, want 100", w.open)
	}
	if err := w.take(101); !errors.Is(err, errWindow) {
		t.Errorf("101 bytes in a window of 100: %v", err)
	}
}

func TestFrozenWindowIsNeverGrantedAgain(t *testing.T) {
	w := receiveWindow{size: 100, open: 100, frozen: true}
	if err := w.take(100); err != nil {
		t.Fatal(err)
	}
	if b := w.appendGrant(nil); len(b) != 0 {
		t.Errorf("granted %x", b)
	}
}

// sent frames everything the output may send and reads it as a server would.
func sent(t *testing.T, o *output) (sizes []int, data []byte) {
	t.Helper()
	b, whole := o.appendTo(make([]byte, 0, 1<<20))
	if !whole {
		t.Fatal("a megabyte did not do")
	}
	r := http2.NewFramer(nil, bytes.NewReader(b))
	for {
		f, err := r.ReadFrame()
		if errors.Is(err, io.EOF) {
			return sizes, data
		}
		if err != nil {
			t.Fatal(err)
		}
		d, ok := f.(*http2.DataFrame)
		if !ok || d.StreamID != streamID {
			t.Fatalf("frame %v", f)
		}
		sizes, data = append(sizes, len(d.Data())), append(data, d.Data()...)
	}
}

func TestOutputKeepsToTheServersWindows(t *testing.T) {
	o := output{window: newSendWindow()}
	names := bytes.Repeat([]byte("n"), 100_000)
	o.message([]byte("small"), names)
	o.message([]byte("ack"))
	want := slices.Concat(grpcMessage(append([]byte("small"), names...)), grpcMessage([]byte("ack")))

	sizes, got := sent(t, &o)
	if len(got) != initialWindow || slices.Max(sizes) != maxFrame {
		t.Fatalf("first %d bytes in frames of %v, want %d in frames up to %d", len(got), sizes, initialWindow, maxFrame)
	}
	update(t, &o, 0, 1000)
	if _, more := sent(t, &o); len(more) != 0 {
		t.Fatalf("%d bytes were sent on a closed stream window", len(more))
	}
	update(t, &o, streamID, 600)
	_, more := sent(t, &o)
	if got = append(got, more...); len(more) != 600 {
		t.Fatalf("%d bytes were sent after a grant of 600", len(more))
	}
	update(t, &o, 0, 1<<20)
	update(t, &o, streamID, 1<<20)
	_, more = sent(t, &o)
	if got = append(got, more...); !bytes.Equal(got, want) {
		t.Fatalf("sent %d bytes that differ from the %d queued", len(got), len(want))
	}
	if bytes.Count(names, []byte("n")) != len(names) {
		t.Error("a shared part was changed")
	}
}

func TestOutputStopsWhereTheBufferEnds(t *testing.T) {
	o := output{window: sendWindow{conn: 1 << 20, stream: 1 << 20, initial: 1 << 20}}
	o.message(make([]byte, 60_000))
	b, whole := o.appendTo(make([]byte, 0, 40_000))
	if whole || len(b) != 2*(frameHeader+maxFrame) || cap(b) != 40_000 {
		t.Fatalf("framed %d bytes (whole: %t) in a buffer of %d", len(b), whole, cap(b))
	}
}

func update(t *testing.T, o *output, stream uint32, n uint32) {
	t.Helper()
	b := written(t, func(f *http2.Framer) error { return f.WriteWindowUpdate(stream, n) })
	if err := o.window.update(frame{kind: http2.FrameWindowUpdate, stream: stream, payload: b[frameHeader:]}); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsMoveTheStreamWindowBelowZero(t *testing.T) {
	w := newSendWindow()
	w.take(60_000)
	settings := func(v uint32) error {
		b := written(t, func(f *http2.Framer) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1 << 20},
				http2.Setting{ID: http2.SettingInitialWindowSize, Val: v})
		})
		return w.settings(frame{kind: http2.FrameSettings, payload: b[frameHeader:]})
	}
	if err := settings(1000); err != nil || w.stream != 1000-60_000 || w.allowed() != 0 {
		t.Errorf("window %d, allowed %d, %v", w.stream, w.allowed(), err)
	}
	if err := settings(100_000); err != nil || w.stream != 40_000 || w.allowed() != 5535 {
		t.Errorf("window %d, allowed %d, %v", w.stream, w.allowed(), err)
	}
	if err := settings(1 << 31); err == nil {
		t.Error("an initial window of 2^31 was accepted")
	}
}

func TestWindowUpdatesBeyondTheProtocolAreErrors(t *testing.T) {
	for _, n := range []uint32{0, maxWindow} {
		w := newSendWindow()
		b := appendWindowUpdate(nil, 0, int(n))
		if err := w.update(frame{payload: b[frameHeader:]}); err == nil {
			t.Errorf("an update by %d from %d was accepted", n, initialWindow)
		}
	}
}
