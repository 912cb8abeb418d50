package configload

import "testing"

// Partly proves BS-10: the typing of unquoted scalars.
func TestPlainScalar(t *testing.T) {
	for text, want := range map[string]struct {
		kind kind
		text string
	}{
		"": {nullNode, ""}, "~": {nullNode, "~"}, "null": {nullNode, "null"}, "NULL": {nullNode, "NULL"}, "nULL": {stringNode, "nULL"},
		"true": {trueNode, "true"}, "Yes": {trueNode, "Yes"}, "ON": {trueNode, "ON"}, "y": {trueNode, "y"},
		"false": {falseNode, "false"}, "no": {falseNode, "no"}, "Off": {falseNode, "Off"}, "N": {falseNode, "N"},
		"tRUE": {stringNode, "tRUE"}, "yEs": {stringNode, "yEs"}, "trueish": {stringNode, "trueish"},
		"0": {numberNode, "0"}, "80": {numberNode, "80"}, "+5": {numberNode, "5"}, "-7": {numberNode, "-7"},
		"0x50": {numberNode, "80"}, "-0X10": {numberNode, "-16"}, "0120": {numberNode, "80"}, "0o17": {stringNode, "0o17"},
		"089": {numberNode, "089"}, "1_000": {stringNode, "1_000"}, "0x": {stringNode, "0x"}, "+-1": {stringNode, "+-1"}, "-": {stringNode, "-"},
		"2147483647": {numberNode, "2147483647"}, "2147483648": {stringNode, "2147483648"},
		"-2147483649": {stringNode, "-2147483649"}, "0x80000000": {stringNode, "2147483648"},
		"18446744073709551615": {numberNode, "18446744073709551615"},
		"1.5":                  {numberNode, "1.5"}, ".5": {numberNode, ".5"}, "5.": {numberNode, "5."}, "1e3": {numberNode, "1e3"}, "1E-3": {numberNode, "1E-3"},
		"1e": {stringNode, "1e"}, ".": {stringNode, "."}, "1e999": {stringNode, "1e999"}, "1.2.3": {stringNode, "1.2.3"},
		".nan": {stringNode, ".nan"}, "-.inf": {stringNode, "-.inf"}, "10.0.0.1": {stringNode, "10.0.0.1"}, "5s": {stringNode, "5s"},
	} {
		if k, s := plainScalar(text); k != want.kind || s != want.text {
			t.Errorf("%q is %v %q, want %v %q", text, k, s, want.kind, want.text)
		}
	}
}

// TestSplitYAML cuts at document markers and nowhere else.
func TestSplitYAML(t *testing.T) {
	for text, want := range map[string][]chunk{
		"":                          nil,
		"a\n":                       {{[]byte("a\n"), 0}},
		"a\n---\nb\n":               {{[]byte("a\n"), 0}, {[]byte("---\nb\n"), 1}},
		"--- a\n--- b":              {{[]byte("--- a\n"), 0}, {[]byte("--- b"), 1}},
		"a: |\n  ---\n  x\n---x: 1": {{[]byte("a: |\n  ---\n  x\n---x: 1"), 0}},
		"a\n...\n%YAML 1.1\n---\nb": {{[]byte("a\n"), 0}, {[]byte("%YAML 1.1\n---\nb"), 2}},
		"a\r\n---\r\nb":             {{[]byte("a\r\n"), 0}, {[]byte("---\r\nb"), 1}},
		"# %\n---\na":               {{[]byte("# %\n"), 0}, {[]byte("---\na"), 1}},
		"\xff\xfea\x00\n\x00-\x00-": {{[]byte("\xff\xfea\x00\n\x00-\x00-"), 0}},
	} {
		got := splitYAML([]byte(text))
		if len(got) != len(want) {
			t.Errorf("%q: %d chunks, want %d", text, len(got), len(want))
			continue
		}
		for i := range got {
			if string(got[i].text) != string(want[i].text) || got[i].line != want[i].line {
				t.Errorf("%q: chunk %d is %q after %d lines, want %q after %d", text, i, got[i].text, got[i].line, want[i].text, want[i].line)
			}
		}
	}
}
