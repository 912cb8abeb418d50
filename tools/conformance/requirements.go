package main

import (
	"bufio"
	_ "embed" // the list of requirements is part of the program
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

//go:embed requirements.tsv
var requirementsTSV string

// Requirement is one thing Xebec must do.
type Requirement struct {
	ID, Tier, Section, Title string
}

// Requirements is the list, in the order in which the document shows it.
type Requirements struct {
	all   []Requirement
	index map[string]int
	// id matches anything shaped like an id with a prefix of the list, known or
	// not, so that a misspelt number is noticed and "UTF-8" is not.
	id *regexp.Regexp
	// inName matches an id within an identifier, such as TestXS19StaleNonce.
	inName *regexp.Regexp
}

var validID = regexp.MustCompile(`^[A-Z]{2}-[0-9]{2,3}$`)

// ReadRequirements reads a tab-separated list: id, tier, section, title.
func ReadRequirements(name string, r io.Reader) (*Requirements, error) {
	reqs := &Requirements{index: map[string]int{}}
	sc := bufio.NewScanner(r)
	for line := 1; sc.Scan(); line++ {
		f := strings.Split(sc.Text(), "\t")
		if len(f) != 4 || slices.Contains(f, "") {
			return nil, fmt.Errorf("%s:%d: want id, tier, section and title, separated by tabs", name, line)
		}
		if !validID.MatchString(f[0]) {
			return nil, fmt.Errorf("%s:%d: %q is not an id such as XS-19", name, line, f[0])
		}
		if _, dup := reqs.index[f[0]]; dup {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", name, line, f[0])
		}
		reqs.index[f[0]] = len(reqs.all)
		reqs.all = append(reqs.all, Requirement{ID: f[0], Tier: f[1], Section: f[2], Title: f[3]})
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(reqs.all) == 0 {
		return nil, fmt.Errorf("%s: no requirements", name)
	}
	p := strings.Join(reqs.prefixes(), "|")
	reqs.id = regexp.MustCompile(`\b(?:` + p + `)-[0-9]+\b`)
	reqs.inName = regexp.MustCompile(`(?:^|[^A-Z])(` + p + `)_?([0-9]{2,})`)
	return reqs, nil
}

func (r *Requirements) prefixes() []string {
	var p []string
	for _, q := range r.all {
		if !slices.Contains(p, q.ID[:2]) {
			p = append(p, q.ID[:2])
		}
	}
	return p
}

// Known reports whether the list holds an id.
func (r *Requirements) Known(id string) bool {
	_, ok := r.index[id]
	return ok
}
