package route

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	rewritev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/rewrite/uri_template/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// template is a URI template that paths are matched with.
type template struct {
	text  string
	re    *regexp.Regexp
	names []string // the variable of each group
}

// pchar are the characters of a path segment (RFC 3986, appendix A).
const pchar = `a-zA-Z0-9\-._~%!$&'()*+,;:@=`

func (b *builder) typed(path string, c *corev3.TypedExtensionConfig, into proto.Message) bool {
	want := into.ProtoReflect().Descriptor().FullName()
	if got := c.GetTypedConfig().MessageName(); got != want {
		b.fail(path+".typed_config", fmt.Errorf("%s is not built: use %s", got, want))
		return false
	}
	if err := proto.Unmarshal(c.GetTypedConfig().GetValue(), into); err != nil {
		b.fail(path+".typed_config", fmt.Errorf("it cannot be decoded: %w", err))
		return false
	}
	return true
}

func (b *builder) pathTemplate(path string, c *corev3.TypedExtensionConfig) *template {
	var m matchv3.UriTemplateMatchConfig
	if !b.typed(path, c, &m) {
		return nil
	}
	t, err := parseTemplate(m.GetPathTemplate())
	b.fail(path+".typed_config.path_template", err)
	return t
}

// maxVariables bounds the variables of a template, as Envoy does.
const maxVariables = 5

// parseTemplate turns a template into a regular expression: "*" is a segment
// or the beginning of one, "**" any number of segments, "{name}" and
// "{name=pattern}" are variables, one in a segment.
func parseTemplate(s string) (*template, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, fmt.Errorf("the template %q does not begin with a slash", s)
	}
	p := templateParser{rest: s}
	for p.rest != "" {
		if err := p.next(); err != nil {
			return nil, fmt.Errorf("invalid template %q: %w", s, err)
		}
	}
	if len(p.names) > maxVariables {
		return nil, fmt.Errorf("invalid template %q: more than %d variables", s, maxVariables)
	}
	re, err := regexp.Compile("^" + p.out.String() + "$")
	if err != nil {
		return nil, fmt.Errorf("invalid template %q: %w", s, err)
	}
	return &template{s, re, p.names}, nil
}

type templateParser struct {
	rest  string
	out   strings.Builder
	names []string
	start bool // at the beginning of a segment
	bound bool // the segment has a variable already
}

func (p *templateParser) next() error {
	c := p.rest[0]
	switch {
	case c == '*' && p.start:
		p.star()
		return nil
	case c == '*':
		return errors.New("* and ** can only stand at the beginning of a segment")
	case c == '{':
		return p.variable()
	case strings.HasPrefix(p.rest, "//"):
		return errors.New(`Invalid literal: ""`) //nolint:staticcheck // Envoy's text
	case c == '/':
		p.bound = false
	case !literal(c):
		return fmt.Errorf("%q cannot stand in a path", c)
	}
	p.start = c == '/'
	p.out.WriteString(regexp.QuoteMeta(p.rest[:1]))
	p.rest = p.rest[1:]
	return nil
}

func literal(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~%!$&'()+,;:@=", c) >= 0
}

func (p *templateParser) star() {
	p.start = false
	if strings.HasPrefix(p.rest, "**") {
		p.rest = p.rest[2:]
		p.out.WriteString("[" + pchar + "/]*")
		return
	}
	p.rest = p.rest[1:]
	p.out.WriteString("[" + pchar + "]+")
}

func (p *templateParser) variable() error {
	body, rest, ok := strings.Cut(p.rest[1:], "}")
	if !ok {
		return errors.New("a brace is not closed")
	}
	if p.bound {
		return errors.New("a segment can have one variable")
	}
	name, pattern, has := strings.Cut(body, "=")
	if !has {
		pattern = "*"
	}
	if !variableName(name) {
		return fmt.Errorf("Invalid variable name: %q", name) //nolint:staticcheck // Envoy's text
	}
	if slices.Contains(p.names, name) {
		return fmt.Errorf("Repeated variable name: %q", name) //nolint:staticcheck // Envoy's text
	}
	if pattern == "" || strings.ContainsAny(pattern, "{}") {
		return fmt.Errorf("the variable %q has an invalid pattern", name)
	}
	p.names = append(p.names, name)
	p.out.WriteByte('(')
	p.start = true // of what it stands for
	for p.rest = pattern; p.rest != ""; {
		if err := p.next(); err != nil {
			return err
		}
	}
	p.out.WriteByte(')')
	p.rest, p.start, p.bound = rest, false, true
	return nil
}

// variableName: a letter, then letters, digits and underscores, at most 16.
func variableName(s string) bool {
	if s == "" || len(s) > 16 {
		return false
	}
	for i := range len(s) {
		c := stringmatch.LowerByte(s[i])
		letter, other := c >= 'a' && c <= 'z', c >= '0' && c <= '9' || c == '_'
		if !letter && (i == 0 || !other) {
			return false
		}
	}
	return true
}

func (t *template) match(path string) bool { return t.re.MatchString(path) }

// templateRewrite makes a path of the variables that a template matched.
type templateRewrite struct {
	from  *template
	parts []templatePart
}

// templatePart is a text, or the variable of a group from 1 on.
type templatePart struct {
	text  string
	group int
}

func (b *builder) templateRewrite(path string, c *corev3.TypedExtensionConfig, from *template) *templateRewrite {
	var m rewritev3.UriTemplateRewriteConfig
	if !b.typed(path, c, &m) {
		return nil
	}
	if from == nil {
		b.fail(path, errors.New("unable to use envoy.path.rewrite.uri_template.uri_template_rewriter extension without envoy.path.match.uri_template.uri_template_matcher extension"))
		return nil
	}
	r := &templateRewrite{from: from}
	b.fail(path+".typed_config.path_template_rewrite", r.parse(m.GetPathTemplateRewrite()))
	return r
}

func (r *templateRewrite) parse(s string) error {
	if !strings.HasPrefix(s, "/") {
		return fmt.Errorf("the rewrite %q does not begin with a slash", s)
	}
	for s != "" {
		plain, rest, ok := strings.Cut(s, "{")
		if strings.Contains(plain, "//") || strings.ContainsFunc(plain, func(c rune) bool { return c > 127 || c != '/' && !literal(byte(c)) }) {
			return fmt.Errorf("%q cannot stand in a path", plain)
		}
		if plain != "" {
			r.parts = append(r.parts, templatePart{text: plain})
		}
		if !ok {
			return nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return errors.New("a brace is not closed")
		}
		i := slices.Index(r.from.names, name)
		if i < 0 {
			return fmt.Errorf("mismatch between variables in path_match_policy and path_rewrite_policy: there is no %q", name)
		}
		r.parts = append(r.parts, templatePart{group: i + 1})
		s = after
	}
	return nil
}

func (r *templateRewrite) apply(path string) (string, bool) {
	groups := r.from.re.FindStringSubmatch(path)
	if groups == nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range r.parts {
		b.WriteString(p.text)
		if p.group > 0 {
			b.WriteString(groups[p.group])
		}
	}
	return b.String(), true
}
