package escape

import (
	"net/url"
	"testing"
)

// Every three bytes are judged as net/url judges them.
func TestAt(t *testing.T) {
	for hi := range 256 {
		for lo := range 256 {
			s := string([]byte{'x', '%', byte(hi), byte(lo)})
			want, err := url.PathUnescape(s[1:])
			got, ok := At(s, 1)
			if _, same := At([]byte(s), 1); ok != (err == nil) || same != ok {
				t.Fatalf("%q: %v, want %v", s, ok, err)
			}
			if ok && string([]byte{got}) != want {
				t.Fatalf("%q: %q, want %q", s, got, want)
			}
		}
	}
	for _, s := range []string{"", "%", "%4", "a41"} {
		if _, ok := At(s, 0); ok {
			t.Errorf("%q is an escape", s)
		}
	}
}
