package http1

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// Proves HC-10 and HC-51: what two parsers could read differently is refused,
// wherever the input is cut.
func TestRefused(t *testing.T) {
	text, err := os.ReadFile("testdata/refused.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		n++
		f := strings.SplitN(line, " | ", 3)
		in, err := strconv.Unquote(f[2])
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		s := setup{}
		switch f[0] {
		case "response":
			s.role, s.method = Client, "GET"
		case "request-1.0":
			s.o.AcceptHTTP10 = true
		}
		got, err := s.runAll([]byte(in))
		if err != nil {
			t.Errorf("line %d: %s: %v", i+1, f[2], err)
		}
		if !strings.Contains(got, "error "+f[1]+": ") || strings.Contains(got, "ended within") {
			t.Errorf("line %d: %s: got\n%swant %s", i+1, f[2], got, f[1])
		}
	}
	if n < 100 {
		t.Errorf("only %d inputs", n)
	}
}
