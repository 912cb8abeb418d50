package client

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/http2"
)

// frameLog notes what a frameReader reads; adjoining DATA is joined.
type frameLog struct {
	lines []string
	text  []byte
}

func (l *frameLog) dataFrame(size int, stream uint32) error {
	l.lines = append(l.lines, fmt.Sprintf("data frame of %d on %d", size, stream))
	return nil
}

func (l *frameLog) data(b []byte) error {
	l.text = append(l.text, b...)
	return nil
}

func (l *frameLog) endOfStream() error {
	l.lines = append(l.lines, "end of stream")
	return nil
}

func (l *frameLog) frame(f frame) error {
	l.lines = append(l.lines, fmt.Sprintf("%v flags %x on %d: %x", f.kind, f.flags, f.stream, f.payload))
	return nil
}

// written is what the reference implementation writes.
func written(t testing.TB, write func(*http2.Framer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(http2.NewFramer(&b, nil)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func conversation(t testing.TB) []byte {
	return written(t, func(w *http2.Framer) error {
		for _, err := range []error{
			w.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 99}),
			w.WriteData(1, false, []byte("hello ")),
			w.WriteDataPadded(1, false, []byte("wor"), make([]byte, 7)),
			w.WriteDataPadded(1, false, nil, make([]byte, 3)),
			w.WritePing(false, [8]byte{1, 2, 3, 4, 5, 6, 7, 8}),
			w.WriteWindowUpdate(1, 1000),
			w.WriteData(1, false, nil),
			w.WriteData(1, true, []byte("ld")),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func readFrames(pieces ...[]byte) (*frameLog, error) {
	var r frameReader
	l := &frameLog{}
	for _, p := range pieces {
		if err := r.feed(p, l); err != nil {
			return l, err
		}
	}
	return l, nil
}

func TestFramesOfTheReferenceImplementation(t *testing.T) {
	all := conversation(t)
	want := []string{
		"SETTINGS flags 0 on 0: 000400000063",
		"data frame of 6 on 1", "data frame of 11 on 1", "data frame of 4 on 1",
		"PING flags 0 on 0: 0102030405060708", "WINDOW_UPDATE flags 0 on 1: 000003e8",
		"data frame of 0 on 1", "data frame of 2 on 1", "end of stream",
	}
	for i := range all {
		l, err := readFrames(all[:i], all[i:])
		if err != nil || !cmp.Equal(l.lines, want) || string(l.text) != "hello world" {
			t.Fatalf("cut at %d: %v, text %q\n%s", i, err, l.text, cmp.Diff(want, l.lines))
		}
	}
}

func TestMalformedFramesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"too large":        {appendFrame(nil, http2.FrameData, 0, 1, maxFrame+1), "16385 bytes"},
		"too much padding": {append(appendFrame(nil, http2.FrameData, http2.FlagDataPadded, 1, 3), 3, 0, 0), "3 bytes of padding in 2"},
	} {
		if _, err := readFrames(c.in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
	}
}
