package format

import (
	"fmt"
	"strconv"
	"strings"
)

// Options are what operators need besides a stream.
type Options struct {
	// OmitEmpty writes nothing, instead of "-" or a null field, for an operator
	// without a value (omit_empty_values).
	OmitEmpty bool
	// Environment looks up variables for %ENVIRONMENT(X)%; without it that
	// operator is refused.
	Environment func(name string) (string, bool)
	// ReqWithoutQuery has %REQ_WITHOUT_QUERY(X)%
	// (extensions/formatter/req_without_query/v3).
	ReqWithoutQuery bool
	// ReadFile reads the file of a text_format_source; os.ReadFile if nil.
	ReadFile func(name string) ([]byte, error)
	// Hostname is %HOSTNAME%; the machine's if empty.
	Hostname string
}

// Parse compiles a text whose operators need no options. Errors are in Envoy's
// words.
func Parse(text string) (*Format, error) { return ParseWith(text, Options{}) }

// ParseWith compiles a text: operators are %NAME%, %NAME(parameter)% or
// %NAME(parameter):length%, and %% is a percent sign. An unknown operator is an
// error.
func ParseWith(text string, o Options) (*Format, error) {
	parts, err := split(text, &o)
	if err != nil {
		return nil, err
	}
	f := &Format{parts: parts, empty: "-"}
	if o.OmitEmpty {
		f.empty = ""
	}
	return f, nil
}

// split cuts a text into literals and operators.
func split(text string, o *Options) ([]part, error) {
	var parts []part
	var literal strings.Builder
	for i := 0; i < len(text); {
		if text[i] != '%' {
			literal.WriteByte(text[i])
			i++
			continue
		}
		if strings.HasPrefix(text[i:], "%%") {
			literal.WriteByte('%')
			i += 2
			continue
		}
		t, n, ok := scan(text[i:])
		if !ok {
			return nil, fmt.Errorf("Incorrect configuration: %s. Couldn't find valid command at position %d", text, i) //nolint:staticcheck // Envoy's text
		}
		made, err := build(&t, o)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{literal.String(), made})
		literal.Reset()
		i += n
	}
	if literal.Len() > 0 {
		parts = append(parts, part{literal: literal.String()})
	}
	return parts, nil
}

// token is an operator as it is written.
type token struct {
	name, param string
	// max is the length behind the colon; hasMax tells 0 from nothing.
	max    int
	hasMax bool
}

// scan reads the operator at the start of a text and returns its length. A
// parameter ends at the first parenthesis that the rest of an operator follows.
func scan(text string) (t token, n int, ok bool) {
	i := 1
	for i < len(text) && isNameByte(text[i]) {
		i++
	}
	t.name = text[1:i]
	if t.name == "" || i == len(text) {
		return t, 0, false
	}
	if text[i] != '(' {
		n, ok = t.tail(text, i)
		return t, n, ok
	}
	for j := i + 1; j < len(text) && text[j] != '\n'; j++ {
		if text[j] != ')' {
			continue
		}
		if n, ok = t.tail(text, j+1); ok {
			t.param = text[i+1 : j]
			return t, n, true
		}
	}
	return t, 0, false
}

// tail reads the length and the percent sign that end an operator.
func (t *token) tail(text string, i int) (n int, ok bool) {
	if i < len(text) && text[i] == ':' {
		j := i + 1
		for j < len(text) && text[j] >= '0' && text[j] <= '9' {
			j++
		}
		v, err := strconv.Atoi(text[i+1 : j])
		if err != nil {
			return 0, false
		}
		t.max, t.hasMax = v, true
		i = j
	}
	if i >= len(text) || text[i] != '%' {
		t.max, t.hasMax = 0, false
		return 0, false
	}
	return i + 1, true
}

func isNameByte(b byte) bool { return b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' }
