package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Claim says that a test proves a requirement, or a part of it.
type Claim struct {
	ID     string
	Partly bool
	// File is the path of the test below the root, with slashes; Test is the
	// name of its function, empty for a script.
	File, Test string
}

var (
	proves = regexp.MustCompile(`(?i)\b(partly\s+)?proves\b`)
	// clauseEnd is where a claim stops: the end of a sentence or a semicolon.
	clauseEnd = regexp.MustCompile(`\.(?:\s|$)|;`)
	rangeOf   = regexp.MustCompile(`[A-Z]{2}-[0-9]+\s*(?:\.\.+|…|–|—|-|\bto\b|\bthrough\b)\s*(?:[A-Z]{2}-)?[0-9]`)
	commentIn = regexp.MustCompile(`(?m)^\s*(?:#|//)[ \t]?(.*)$`)
)

// Claims reads the claims out of the text of a comment. Ids outside of a claim
// count for nothing but must exist, and ranges are refused: a list can be
// searched for.
func (r *Requirements) Claims(text string) ([]Claim, error) {
	text = strings.Join(strings.Fields(text), " ")
	for _, id := range r.id.FindAllString(text, -1) {
		if !r.Known(id) {
			return nil, fmt.Errorf("%s is not in requirements.tsv", id)
		}
	}
	var out []Claim
	for _, clause := range clauseEnd.Split(text, -1) {
		verbs := proves.FindAllStringSubmatchIndex(clause, -1)
		for i, verb := range verbs {
			end := len(clause)
			if i+1 < len(verbs) {
				end = verbs[i+1][0]
			}
			for _, id := range r.id.FindAllString(clause[verb[1]:end], -1) {
				out = append(out, Claim{ID: id, Partly: verb[2] >= 0})
			}
		}
	}
	if m := rangeOf.FindString(text); len(out) > 0 && m != "" && r.id.MatchString(m) {
		return nil, fmt.Errorf("%q is a range: list each id", m)
	}
	return out, nil
}

// NameClaims reads claims out of the name of a test function.
func (r *Requirements) NameClaims(name string) ([]Claim, error) {
	var out []Claim
	for _, m := range r.inName.FindAllStringSubmatch(name, -1) {
		id := m[1] + "-" + m[2]
		if !r.Known(id) {
			return nil, fmt.Errorf("the name %s holds %s, which is not in requirements.tsv", name, id)
		}
		out = append(out, Claim{ID: id})
	}
	return out, nil
}

// Proofs are the claims by requirement.
type Proofs map[string][]Claim

// Add records claims, each once. A full claim replaces a partial one of the
// same test.
func (p Proofs) Add(claims ...Claim) {
	for _, c := range claims {
		same := func(o Claim) bool { return o.File == c.File && o.Test == c.Test }
		if i := slices.IndexFunc(p[c.ID], same); i >= 0 {
			p[c.ID][i].Partly = p[c.ID][i].Partly && c.Partly
			continue
		}
		p[c.ID] = append(p[c.ID], c)
	}
}

// State is open, partial or proved.
func (p Proofs) State(id string) string {
	switch claims := p[id]; {
	case len(claims) == 0:
		return "open"
	case slices.ContainsFunc(claims, func(c Claim) bool { return !c.Partly }):
		return "proved"
	}
	return "partial"
}
