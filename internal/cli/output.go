package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"golang.org/x/term"
)

// output is the -o flag.
type output struct{ format string }

// Formats of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

func (o *output) flag(cmd *cobra.Command) {
	o.format = formatTable
	cmd.Flags().VarP(o, "output", "o", "table, wide, json, yaml or name")
}

// String, Set and Type make output a flag value.
func (o *output) String() string { return o.format }

// Type names the flag's value in help texts.
func (o *output) Type() string { return "format" }

// Set takes one of the formats.
func (o *output) Set(s string) error {
	switch s {
	case formatTable, formatWide, formatJSON, formatYAML, formatName:
		o.format = s
		return nil
	}
	return fmt.Errorf("%q is none of table, wide, json, yaml and name", s)
}

func (o *output) wide() bool { return o.format == formatWide }

// print writes value in the wanted format; rows and names are asked for where
// the format needs them.
func (o *output) print(p *Process, value any, rows func(*table), names func() []string) error {
	w := p.Stdout
	switch o.format {
	case formatJSON:
		return writeJSON(w, value)
	case formatYAML:
		return writeYAML(w, value)
	case formatName:
		for _, n := range names() {
			fmt.Fprintln(w, n)
		}
		return nil
	}
	t := newTable(p)
	rows(t)
	return t.flush()
}

func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(value)
}

// writeYAML writes what writeJSON would, as YAML: the names are those of JSON.
func writeYAML(w io.Writer, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var node yaml.Node
	if err := yaml.Unmarshal(data, &node); err != nil {
		return err
	}
	blockStyle(&node)
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(&node); err != nil {
		return err
	}
	return e.Close()
}

// blockStyle takes away JSON's braces, and its quotes where nobody could read
// a word as something else, such as yes.
func blockStyle(n *yaml.Node) {
	quoted := n.Kind == yaml.ScalarNode && n.Tag == "!!str" && !plainWord(n.Value)
	n.Style = 0
	if quoted {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
}

func plainWord(s string) bool {
	text, err := yaml.Marshal(s)
	return err == nil && strings.TrimSuffix(string(text), "\n") == s
}

// table collects rows of cells; the first row is the heading. On a terminal it
// is aligned, and coloured unless NO_COLOR is set; elsewhere cells are
// separated by tabs, for other programs to cut.
type table struct {
	w       io.Writer
	pretty  bool
	colours bool
	rows    [][]string
}

func newTable(p *Process) *table {
	t := &table{w: p.Stdout, pretty: isTerminal(p.Stdout)}
	_, no := p.LookupEnv("NO_COLOR")
	t.colours = t.pretty && !no
	return t
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) flush() error {
	var b strings.Builder
	widths := t.widths()
	for i, cells := range t.rows {
		for j, c := range cells {
			last := j == len(cells)-1
			b.WriteString(t.paint(i == 0, c))
			switch {
			case last:
				b.WriteByte('\n')
			case t.pretty:
				b.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c)+2))
			default:
				b.WriteByte('\t')
			}
		}
	}
	_, err := io.WriteString(t.w, b.String())
	return err
}

func (t *table) widths() []int {
	var w []int
	for _, cells := range t.rows {
		for j, c := range cells {
			if j == len(w) {
				w = append(w, 0)
			}
			w[j] = max(w[j], utf8.RuneCountInString(c))
		}
	}
	return w
}

// paint colours a cell by the state it begins with.
func (t *table) paint(heading bool, cell string) string {
	if !t.colours {
		return cell
	}
	code := ""
	switch first, _, _ := strings.Cut(cell, " "); {
	case heading:
		code = "1"
	case first == "SYNCED":
		code = "32"
	case first == "ERROR" || first == "error":
		code = "31"
	case first == "STALE" || first == "NOT_SENT" || first == "warning":
		code = "33"
	}
	if code == "" {
		return cell
	}
	return "\x1b[" + code + "m" + cell + "\x1b[0m"
}
