package clip_test

import (
	"testing"

	"github.com/xebec-proxy/xebec/internal/clip"
)

func TestText(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"aé", 2, "a"},
		{"aé", 3, "aé"},
		{"€", 2, ""},
		{"\x80\x80", 1, ""}, // no character at all
	} {
		if got := clip.Text(c.text, c.n); got != c.want {
			t.Errorf("%q cut to %d bytes is %q, want %q", c.text, c.n, got, c.want)
		}
	}
}
