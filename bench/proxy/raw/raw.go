// Package raw is the text form of measurements: one line each, which people
// can read and programs can take apart again.
package raw

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Values are named numbers.
type Values map[string]float64

// Line is one measurement: of one proxy in one round of a suite.
type Line struct {
	Suite  string
	Round  int
	Proxy  string
	Values Values
}

// String is "suite round proxy name=value …", names in order.
func (l Line) String() string {
	return fmt.Sprintf("%s %d %s %s", l.Suite, l.Round, l.Proxy, l.Values)
}

// String is "name=value …", names in order.
func (v Values) String() string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(k + "=" + strconv.FormatFloat(v[k], 'f', -1, 64))
	}
	return b.String()
}

// ParseValues is the reverse of Values.String.
func ParseValues(s string) (Values, error) {
	v := Values{}
	for f := range strings.FieldsSeq(s) {
		name, number, ok := strings.Cut(f, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not name=value", f)
		}
		x, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: the value is not a number", f)
		}
		v[name] = x
	}
	return v, nil
}

// Read reads lines. Empty ones, and those that begin with #, are left out.
func Read(r io.Reader) ([]Line, error) {
	var all []Line
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		text := strings.TrimSpace(sc.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		l, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, l)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("reading measurements: %w", err)
	}
	return all, nil
}

func parse(text string) (Line, error) {
	f := strings.SplitN(text, " ", 4)
	if len(f) < 4 {
		return Line{}, fmt.Errorf("%q is not \"suite round proxy name=value …\"", text)
	}
	round, err := strconv.Atoi(f[1])
	if err != nil {
		return Line{}, fmt.Errorf("the round is %q, not a number", f[1])
	}
	v, err := ParseValues(f[3])
	return Line{Suite: f[0], Round: round, Proxy: f[2], Values: v}, err
}
