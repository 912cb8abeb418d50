package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The ids of these tests use prefixes that the real list does not know, so
// that the generator does not take them for claims when it reads this file.
const sampleList = "QA-01\tcore\tAlpha: one\tfirst | `a|b` <x>\n" +
	"QA-02\tv3\tAlpha: one\tsecond\n" +
	"QB-100\town\tBeta, two (x)\tthird\n"

func sample(t *testing.T) *Requirements {
	t.Helper()
	r, err := ReadRequirements("list.tsv", strings.NewReader(sampleList))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReadRequirementsRefuses(t *testing.T) {
	for name, c := range map[string]struct{ list, want string }{
		"three columns": {"QA-01\tcore\ttitle\n", "list.tsv:1: want id, tier, section and title"},
		"empty column":  {"QA-01\t\tAlpha\ttitle\n", "list.tsv:1: want id"},
		"bad id":        {sampleList + "QAB1\tx\ty\tz\n", `list.tsv:4: "QAB1" is not an id`},
		"twice":         {sampleList + "QA-02\tx\ty\tz\n", "list.tsv:4: QA-02 is listed twice"},
		"nothing":       {"", "list.tsv: no requirements"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadRequirements("list.tsv", strings.NewReader(c.list))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestEmbeddedListIsSound(t *testing.T) {
	r, err := ReadRequirements("requirements.tsv", strings.NewReader(requirementsTSV))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range r.all {
		if n := len([]rune(q.Title)); n > 120 {
			t.Errorf("the title of %s has %d characters, want at most 120", q.ID, n)
		}
		if strings.Count(q.Title, "`")%2 != 0 {
			t.Errorf("the title of %s opens a code span and does not close it", q.ID)
		}
	}
}

func TestClaims(t *testing.T) {
	full := func(ids ...string) (out []Claim) {
		for _, id := range ids {
			out = append(out, Claim{ID: id})
		}
		return out
	}
	for text, want := range map[string][]Claim{
		"Proves QA-01.": full("QA-01"),
		"Test X does it. Proves QA-01, QA-02 and\n QB-100.": full("QA-01", "QA-02", "QB-100"),
		"proves QA-01 for delta and QA-02 for SotW":         full("QA-01", "QA-02"),
		"Proves QA-01; see QA-02.":                          full("QA-01"),
		"Proves QA-01. QA-02 is elsewhere.":                 full("QA-01"),
		"QA-02 is elsewhere. This proves QA-01.":            full("QA-01"),
		"Partly proves QA-01.":                              {{ID: "QA-01", Partly: true}},
		"Proves QA-01 and partly proves QA-02.":             {{ID: "QA-01"}, {ID: "QA-02", Partly: true}},
		"Partly proves QA-02. Proves QA-01.":                {{ID: "QA-02", Partly: true}, {ID: "QA-01"}},
		"Unlike QA-01 this claims nothing.":                 nil,
		"Proves that UTF-8 works.":                          nil,
		"Improves QA-01.":                                   nil,
	} {
		got, err := sample(t).Claims(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%q (-want +got):\n%s", text, d)
		}
	}
}

func TestClaimsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"Proves QA-03.":                 "QA-03 is not in requirements.tsv",
		"Proves QA-1.":                  "QA-1 is not in requirements.tsv",
		"Only mentions QA-77.":          "QA-77 is not in requirements.tsv",
		"Proves QA-01..QA-02.":          `"QA-01..Q`,
		"Proves QA-01 .. QA-02.":        `"QA-01 .. Q`,
		"Proves QA-01-QA-02.":           "is a range: list each id",
		"Proves QA-01–02.":              "is a range: list each id",
		"Proves QA-01 to QA-02.":        "is a range: list each id",
		"Partly proves QA-01 … QB-100.": "is a range: list each id",
	} {
		got, err := sample(t).Claims(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v and %v, want error %q", text, got, err, want)
		}
	}
}

func TestNameClaims(t *testing.T) {
	for name, want := range map[string][]Claim{
		"TestQA01StaleNonce":       {{ID: "QA-01"}},
		"TestStaleNonce_QB_100":    {{ID: "QB-100"}},
		"TestQA01_QA02":            {{ID: "QA-01"}, {ID: "QA-02"}},
		"TestSQA01":                nil,
		"TestQA1":                  nil,
		"TestNothingOfTheKind2026": nil,
	} {
		got, err := sample(t).NameClaims(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if _, err := sample(t).NameClaims("TestQA55Unknown"); err == nil || !strings.Contains(err.Error(), "QA-55") {
		t.Errorf("got %v, want an error about QA-55", err)
	}
}

func TestState(t *testing.T) {
	p := Proofs{}
	p.Add(Claim{ID: "QA-01", Partly: true, File: "a", Test: "T"}, Claim{ID: "QA-02", Partly: true, File: "a", Test: "T"})
	p.Add(Claim{ID: "QA-01", File: "b", Test: "T"})
	for id, want := range map[string]string{"QA-01": "proved", "QA-02": "partial", "QB-100": "open"} {
		if got := p.State(id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	p.Add(Claim{ID: "QA-02", File: "a", Test: "T"})
	if got := p.State("QA-02"); got != "proved" || len(p["QA-02"]) != 1 {
		t.Errorf("after a full claim by the same test: %s, %v", got, p["QA-02"])
	}
}
