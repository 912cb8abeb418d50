package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

const preamble = `# Conformance

What Xebec must do, and which test proves it. This file is generated from the list in
[tools/conformance](../tools/conformance) and from the tests themselves: ` + "`make generate`" + ` rewrites it, and
` + "`make check-generate`" + ` fails if it is out of date. [CONTRIBUTING.md](../CONTRIBUTING.md#claims) says how a test makes
a claim.

**proved**: a test claims the whole requirement. **partial**: tests claim parts of it only. **open**: no test claims it,
whether or not it is built.

Tiers of the transport: *core*, demanded by the protocol since its first description; *v3*, by its newer documents;
*own*, left open by the protocol and decided here. Of proxyless gRPC: *T0* is gRFC A27, *T1* what current gRPC clients
have, *T2* the rest, *X* more than any of them. Of the data plane: *T1* the first complete release, *T2* the next, *T3*
later.

`

// section is a run of requirements under one heading.
type section struct {
	title string
	reqs  []Requirement
}

// Render writes the document. links leads from the document's folder to the root.
func Render(reqs *Requirements, proofs Proofs, links string) string {
	var b strings.Builder
	b.WriteString(preamble)
	sections := reqs.sections()
	writeSummary(&b, sections, proofs)
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| id | tier | requirement | state | tests |\n|---|---|---|---|---|\n", s.title)
		for _, q := range s.reqs {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n",
				q.ID, q.Tier, escape(q.Title), proofs.State(q.ID), tests(proofs[q.ID], links))
		}
	}
	return b.String()
}

func (r *Requirements) sections() []section {
	var out []section
	for _, q := range r.all {
		i := slices.IndexFunc(out, func(s section) bool { return s.title == q.Section })
		if i < 0 {
			i = len(out)
			out = append(out, section{title: q.Section})
		}
		out[i].reqs = append(out[i].reqs, q)
	}
	return out
}

func writeSummary(b *strings.Builder, sections []section, proofs Proofs) {
	b.WriteString("| section | proved | partial | open | all |\n|---|--:|--:|--:|--:|\n")
	total := map[string]int{}
	row := func(title string, n map[string]int, all int) {
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", title, n["proved"], n["partial"], n["open"], all)
	}
	all := 0
	for _, s := range sections {
		n := map[string]int{}
		for _, q := range s.reqs {
			n[proofs.State(q.ID)]++
			total[proofs.State(q.ID)]++
		}
		row(fmt.Sprintf("[%s](#%s)", s.title, anchor(s.title)), n, len(s.reqs))
		all += len(s.reqs)
	}
	row("**all**", total, all)
}

// anchor is the fragment under which a heading is found.
func anchor(title string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z':
			return c
		}
		return -1
	}, strings.ToLower(title))
}

// tests lists the tests of one requirement, a link for each file.
func tests(claims []Claim, links string) string {
	claims = slices.SortedFunc(slices.Values(claims), func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Test, b.Test))
	})
	var out []string
	file := ""
	for _, c := range claims {
		name := c.Test
		if c.Partly {
			name = strings.TrimSpace(name + " (partly)")
		}
		if c.File == file {
			out = append(out, name)
			continue
		}
		file = c.File
		out = append(out, strings.TrimSpace(fmt.Sprintf("[%s](%s) %s", c.File, path.Join(links, c.File), name)))
	}
	return strings.Join(out, ", ")
}

// escape keeps a title from being read as markup, except for its code spans.
func escape(s string) string {
	s = strings.ReplaceAll(s, "|", `\|`)
	parts := strings.Split(s, "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("<", "&lt;", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`).Replace(parts[i])
	}
	return strings.Join(parts, "`")
}
