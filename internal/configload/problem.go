package configload

import (
	"fmt"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Problem is the error inside each ResourceError of this package.
type Problem struct {
	// Code names the kind of problem; stable, in kebab-case.
	Code string
	// Text says what is wrong, Hint what to do next; Hint may be empty.
	Text, Hint string
}

// Codes of problems.
const (
	CodeSyntax            = "syntax"
	CodeFormat            = "unknown-format"
	CodeDocument          = "unknown-document"
	CodeUnknownField      = "unknown-field"
	CodeUnknownType       = "unknown-type"
	CodeMissingType       = "missing-type"
	CodeMissingName       = "missing-name"
	CodeV2                = "v2-configuration"
	CodeDuplicateKey      = "duplicate-key"
	CodeDuplicateResource = "duplicate-resource"
	CodeInvalidValue      = "invalid-value"
	CodeUnsupported       = "unsupported"
	CodeTooLarge          = "too-large"
	CodeDeprecated        = "deprecated-field"
	CodeUnused            = "unused-section"
)

// Error is the text and the hint.
func (p *Problem) Error() string {
	if p.Hint == "" {
		return p.Text
	}
	return p.Text + "; " + p.Hint
}

func problem(code, format string, args ...any) *Problem {
	return &Problem{Code: code, Text: fmt.Sprintf(format, args...)}
}

func (p *Problem) hint(format string, args ...any) *Problem {
	p.Hint = fmt.Sprintf(format, args...)
	return p
}

// syntaxProblem has the words of Envoy's own message (BS-18).
func syntaxProblem(reason, text string) *Problem {
	return problem(CodeSyntax, "Unable to parse JSON as proto (INVALID_ARGUMENT: %s): %s", reason, text)
}

// decodeText is what the protobuf library says of malformed input. The library
// varies its white space from build to build, to keep programs from relying on
// it; messages here are the same in each.
func decodeText(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimSpace(strings.TrimPrefix(text, "proto:"))
}

// maxProblems bounds the list of one file; the rest is counted.
const maxProblems = 1000

// load is the state of reading one file.
type load struct {
	loader    *Loader
	file      string
	resources []*Resource
	errs      []*xds.ResourceError
	unlisted  int
	pending   []*xds.ResourceError // warnings that no resource has yet
	seen      map[xds.Key]xds.Position
	suggest   suggester
	// visits is how many more nodes the builders may walk, aliases expanded.
	visits int
}

func newLoad(l *Loader, file string) *load {
	return &load{loader: l, file: file, seen: map[xds.Key]xds.Position{}, suggest: suggester{types: l.types()}}
}

func (l *load) pos(line, col int32) xds.Position {
	return xds.Position{File: l.file, Line: int(line), Column: int(col)}
}

func (l *load) add(e *xds.ResourceError) {
	if len(l.errs) >= maxProblems {
		l.unlisted++
		return
	}
	l.errs = append(l.errs, e)
}

// fail reports a problem that belongs to no resource.
func (l *load) fail(line, col int32, path string, p *Problem) {
	l.add(&xds.ResourceError{Path: path, Pos: l.pos(line, col), Err: p})
}

func (l *load) problems() []*xds.ResourceError {
	if l.unlisted == 0 {
		return l.errs
	}
	p := problem(CodeTooLarge, "%d more problems in this file are not listed", l.unlisted)
	return append(l.errs, &xds.ResourceError{Pos: xds.Position{File: l.file}, Err: p})
}
