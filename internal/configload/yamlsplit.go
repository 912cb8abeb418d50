package configload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// chunk is the text of one YAML document.
type chunk struct {
	text []byte
	line int // lines before it
}

// splitYAML cuts a file at its document markers, which YAML recognises at the
// start of any line, even inside a scalar. Directives stay with the document
// after them.
func splitYAML(data []byte) []chunk {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return []chunk{{text: data}} // UTF-16: left to the YAML library
	}
	var chunks []chunk
	start, startLine, line := 0, 0, 0
	cut := func(end, next, nextLine int) {
		if len(bytes.TrimSpace(data[start:end])) > 0 {
			chunks = append(chunks, chunk{text: data[start:end], line: startLine})
		}
		start, startLine = next, nextLine
	}
	for i := 0; i < len(data); line++ {
		end := len(data)
		if j := bytes.IndexByte(data[i:], '\n'); j >= 0 {
			end = i + j + 1
		}
		switch {
		case isMarker(data[i:end], "---") && !onlyDirectives(data[start:i]):
			cut(i, i, line)
		case isMarker(data[i:end], "..."):
			cut(i, end, line+1)
		}
		i = end
	}
	cut(len(data), len(data), line)
	return chunks
}

func isMarker(line []byte, marker string) bool {
	rest, ok := bytes.CutPrefix(line, []byte(marker))
	return ok && (len(rest) == 0 || bytes.IndexByte([]byte(" \t\r\n"), rest[0]) >= 0)
}

// onlyDirectives reports whether text has a directive and nothing but
// directives, comments and blank lines.
func onlyDirectives(text []byte) bool {
	if bytes.IndexByte(text, '%') < 0 {
		return false
	}
	found := false
	for line := range bytes.Lines(text) {
		switch {
		case line[0] == '%':
			found = true
		case line[0] == '#' || len(bytes.TrimSpace(line)) == 0:
		default:
			return false
		}
	}
	return found
}

// yamlError is what the YAML library says about a malformed document.
type yamlError struct {
	reason string
	line   int // in the document, from 1
}

// problem quotes the key of the line at fault, and no more: what follows could
// be a secret.
func (e *yamlError) problem(text []byte) *Problem {
	return syntaxProblem(e.reason, keyOfLine(text, e.line))
}

// decodeYAML parses one document; nil if it is empty.
func decodeYAML(text []byte) (root *yaml.Node, failure *yamlError) {
	var doc yaml.Node
	err := decodeFrom(bytes.NewReader(text), &doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, locateYAML(text, err)
	}
	return &doc, nil
}

// decodeFrom guards against panics of the library, which it documents for its
// internal errors.
func decodeFrom(r io.Reader, doc *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: %v", p)
		}
	}()
	return yaml.NewDecoder(r).Decode(doc)
}

// locateYAML finds the line of a syntax error. For an error of structure the
// library names the line where the enclosing block begins, so the document is
// parsed again, given line by line, to see how far it came.
func locateYAML(text []byte, err error) *yamlError {
	e := &yamlError{reason: strings.TrimPrefix(err.Error(), "yaml: "), line: 1}
	if m := regexp.MustCompile(`^line (\d+): (?s:(.*))$`).FindStringSubmatch(e.reason); m != nil {
		e.line, _ = strconv.Atoi(m[1])
		e.reason = m[2]
	}
	if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(e.reason); m != nil {
		if i := bytes.Index(text, []byte("*"+m[1])); i >= 0 {
			e.line = 1 + bytes.Count(text[:i], []byte("\n"))
		}
		return e
	}
	if !strings.HasPrefix(e.reason, "did not find expected") {
		return e
	}
	r := &lineReader{rest: text}
	var doc yaml.Node
	_ = decodeFrom(r, &doc) // fails again, having read up to the fault
	e.line = max(r.lines, 1)
	if strings.Contains(e.reason, "' or '") && e.line > 1 {
		e.line-- // in brackets the scanner is a line ahead
	}
	return e
}

// lineReader gives one line for each call and counts them.
type lineReader struct {
	rest  []byte
	lines int
}

func (r *lineReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		return 0, io.EOF
	}
	end := bytes.IndexByte(r.rest, '\n') + 1
	if end == 0 {
		end = len(r.rest)
	}
	n := copy(p, r.rest[:end])
	if n == end {
		r.lines++
	}
	r.rest = r.rest[n:]
	return n, nil
}

// keyOfLine is the key that a line begins with, or "".
func keyOfLine(text []byte, line int) string {
	for l := range bytes.Lines(text) {
		if line--; line == 0 {
			key := regexp.MustCompile(`^[\s{\-]*("?[A-Za-z_@][A-Za-z0-9_@.\-]*"?\s*:)`).FindSubmatch(l)
			if key != nil {
				return clip(string(key[1]))
			}
			return ""
		}
	}
	return ""
}

// clip bounds what messages quote of a file.
func clip(s string) string {
	const longest = 64
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}
