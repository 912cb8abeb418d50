//go:build interop

package differential

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// difference is a field in which the two proxies differ.
type difference struct {
	Case  string `json:"case"`
	Field string `json:"field"`
	Envoy string `json:"envoy"`
	Other string `json:"xebec"`
}

func compare(name string, envoy, other *observation, ignore []string) []difference {
	fields := map[string]bool{}
	for field := range envoy.values {
		fields[field] = true
	}
	for field := range other.values {
		fields[field] = true
	}
	var out []difference
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		a, b := valueOf(envoy, field), valueOf(other, field)
		if a != b && !matchesAny(ignore, field) {
			out = append(out, difference{name, field, a, b})
		}
	}
	return out
}

func valueOf(o *observation, field string) string {
	if v, ok := o.values[field]; ok {
		return v
	}
	return "(absent)"
}

// entry is a row of docs/differences.md.
type entry struct {
	line   int
	cases  []string
	fields []string
	used   bool
}

// readDifferences reads the table whose first column is headed "Cases". A cell
// may hold several patterns, each in backquotes.
func readDifferences(file string) ([]*entry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var out []*entry
	inTable := false
	for i, line := range strings.Split(string(data), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			inTable = false
			continue
		}
		if strings.TrimSpace(cells[1]) == "Cases" {
			inTable = true
			continue
		}
		if !inTable || strings.HasPrefix(strings.TrimSpace(cells[1]), "--") {
			continue
		}
		e := &entry{line: i + 1, cases: patterns(cells[1]), fields: patterns(cells[2])}
		if len(e.cases) == 0 || len(e.fields) == 0 || strings.TrimSpace(cells[3]) == "" {
			return nil, fmt.Errorf("%s:%d: a row has case patterns, field patterns and a reason", file, i+1)
		}
		for _, p := range slices.Concat(e.cases, e.fields) {
			if _, err := path.Match(p, ""); err != nil {
				return nil, fmt.Errorf("%s:%d: %q: %w", file, i+1, p, err)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// patterns returns what stands in backquotes.
func patterns(cell string) []string {
	var out []string
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			out = append(out, part)
		}
	}
	return out
}

// matchesAny reports whether a name matches a pattern. A case is named
// group/case; slashes inside are no separators, so that * matches anything.
func matchesAny(list []string, name string) bool {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") }
	return slices.ContainsFunc(list, func(p string) bool {
		ok, _ := path.Match(flat(p), flat(name))
		return ok
	})
}

// unlisted returns the differences that no entry allows, and marks those
// entries that allow one.
func unlisted(list []difference, entries []*entry) []difference {
	var out []difference
	for _, d := range list {
		allowed := false
		for _, e := range entries {
			if matchesAny(e.cases, d.Case) && matchesAny(e.fields, d.Field) {
				e.used, allowed = true, true
			}
		}
		if !allowed {
			out = append(out, d)
		}
	}
	return out
}
