package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	rows := [][]string{{"NODE", "STATE", "N"}, {"a", "SYNCED", "1"}, {"überlang", "ERROR", "2"}}
	tests := []struct {
		name            string
		pretty, colours bool
		want            string
	}{
		{"elsewhere", false, false, "NODE\tSTATE\tN\na\tSYNCED\t1\nüberlang\tERROR\t2\n"},
		{"terminal", true, false, "NODE      STATE   N\na         SYNCED  1\nüberlang  ERROR   2\n"},
		{"colours", true, true, "\x1b[1mNODE\x1b[0m      \x1b[1mSTATE\x1b[0m   \x1b[1mN\x1b[0m\n" +
			"a         \x1b[32mSYNCED\x1b[0m  1\nüberlang  \x1b[31mERROR\x1b[0m   2\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			table := table{w: &b, pretty: tt.pretty, colours: tt.colours}
			for _, r := range rows {
				table.row(r...)
			}
			if err := table.flush(); err != nil {
				t.Fatal(err)
			}
			if b.String() != tt.want {
				t.Errorf("got\n%q, want\n%q", b.String(), tt.want)
			}
		})
	}
}

func TestYAMLHasTheNamesOfJSON(t *testing.T) {
	var b strings.Builder
	value := map[string]any{"clients": []build{{Version: "yes", Go: "go1"}}}
	if err := writeYAML(&b, value); err != nil {
		t.Fatal(err)
	}
	if want := "clients:\n  - version: \"yes\"\n    go: go1\n    platform: \"\"\n"; b.String() != want {
		t.Errorf("got\n%s, want\n%s", b.String(), want)
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		ExitOK:       nil,
		ExitFailed:   errors.New("x"),
		ExitUsage:    fmt.Errorf("wrapped: %w", usageErrorf("x")),
		ExitFindings: &silentError{ExitFindings},
		ExitNotYet:   errors.Join(errors.New("x"), &exitError{ExitNotYet, errors.New("y")}),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
