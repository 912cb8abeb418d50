package linktrace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/xebec-proxy/xebec/internal/linktrace"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrace(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Mkdir(filepath.Join(base, "d"), 0o700))
	must(t, os.WriteFile(filepath.Join(base, "d/f"), nil, 0o600))
	must(t, os.Symlink("d", filepath.Join(base, "rel")))
	must(t, os.Symlink(filepath.Join(base, "rel"), filepath.Join(base, "abs")))
	must(t, os.Symlink("loop", filepath.Join(base, "loop")))
	tests := map[string]struct {
		rest, real string
		hops       []string
	}{
		"plain":          {"d/f", "d/f", nil},
		"relative":       {"rel/f", "d/f", []string{"rel"}},
		"absolute":       {"abs/f", "d/f", []string{"abs", "rel"}},
		"dots":           {"./rel/../d/./f", "d/f", []string{"rel"}},
		"missing":        {"rel/x/y", "d/x", []string{"rel", "d/x"}},
		"missing at top": {"x", "x", []string{"x"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, hops := linktrace.Trace(base, filepath.FromSlash(tt.rest))
			if want := filepath.Join(base, tt.real); got != want {
				t.Errorf("it leads to %s, want %s", got, want)
			}
			if len(hops) != len(tt.hops) {
				t.Fatalf("the hops are %v, want %v", hops, tt.hops)
			}
			for i := range hops {
				if want := filepath.Join(base, tt.hops[i]); hops[i] != want {
					t.Errorf("hop %d is %s, want %s", i, hops[i], want)
				}
			}
		})
	}
	if _, hops := linktrace.Trace(base, "loop"); len(hops) > linktrace.MaxLinks+1 {
		t.Errorf("a loop was followed %d times", len(hops))
	}
}

func TestPath(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Symlink("to", filepath.Join(base, "from")))
	at, hops, err := linktrace.Path(filepath.Join(base, "from"))
	if want := filepath.Join(base, "to"); err != nil || at != want || len(hops) != 2 || hops[0] != filepath.Join(base, "from") || hops[1] != want {
		t.Errorf("it leads to %s by %v, %v", at, hops, err)
	}
}
