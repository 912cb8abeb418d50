package matchtree

import (
	"errors"
	"fmt"
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// mostNested is how deeply matchers and predicates may be nested in each other. Envoy's
// own reader of messages takes 100 levels, of which each of these needs at least two.
const mostNested = 50

// Env is what trees of one place are built with.
type Env[D, A any] struct {
	// Unpack decodes a typed configuration.
	Unpack func(*anypb.Any) (proto.Message, error)
	// Input is the input of a configuration; ok is false for types that the place
	// does not know. The name is the extension's.
	Input func(cfg proto.Message) (in Input[D], ok bool, err error)
	// Action is the action of a configuration, as Input.
	Action func(cfg proto.Message) (action A, ok bool, err error)
	// Count returns what counts one more of a counter; nil counts nothing.
	Count func(counter string) func(d D)
}

// New builds a tree. Its errors begin with the path of the field, to which the
// matcher's own path is the beginning; all are reported, joined.
func New[D, A any](path string, m *xdsmatcherv3.Matcher, env Env[D, A]) (*Tree[D, A], error) {
	b := builder[D, A]{env: env}
	root := b.matcher(path, m)
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	return &Tree[D, A]{root}, nil
}

type builder[D, A any] struct {
	env   Env[D, A]
	depth int
	errs  []error
}

func (b *builder[D, A]) fail(path string, err error) {
	b.errs = append(b.errs, fmt.Errorf("%s: %w", path, err))
}

// deeper tells whether one more may be nested here; leave with shallower.
func (b *builder[D, A]) deeper(path string) bool {
	if b.depth == mostNested {
		b.fail(path, fmt.Errorf("nested more than %d deep", mostNested))
		return false
	}
	b.depth++
	return true
}

func (b *builder[D, A]) shallower() { b.depth-- }

func (b *builder[D, A]) matcher(path string, m *xdsmatcherv3.Matcher) node[D, A] {
	if !b.deeper(path) {
		return nil
	}
	defer b.shallower()
	var none *branch[D, A]
	if m.GetOnNoMatch() != nil {
		none = b.branch(path+".on_no_match", m.GetOnNoMatch())
	}
	switch t := m.GetMatcherType().(type) {
	case *xdsmatcherv3.Matcher_MatcherList_:
		return b.list(path+".matcher_list.matchers", t.MatcherList, none)
	case *xdsmatcherv3.Matcher_MatcherTree_:
		return b.tree(path+".matcher_tree", t.MatcherTree, none)
	default:
		return &always[D, A]{none}
	}
}

// branch builds an OnMatch, which must say something.
func (b *builder[D, A]) branch(path string, m *xdsmatcherv3.Matcher_OnMatch) *branch[D, A] {
	out := &branch[D, A]{keep: m.GetKeepMatching()}
	switch t := m.GetOnMatch().(type) {
	case *xdsmatcherv3.Matcher_OnMatch_Matcher:
		out.tree = b.matcher(path+".matcher", t.Matcher)
	case *xdsmatcherv3.Matcher_OnMatch_Action:
		out.action = b.action(path+".action", t.Action)
	default:
		b.fail(path, errors.New("nothing follows: set action or matcher"))
	}
	return out
}

func (b *builder[D, A]) action(path string, c *xdscorev3.TypedExtensionConfig) (none A) {
	cfg, ok := b.unpack(path, c)
	if !ok {
		return none
	}
	a, known, err := b.env.Action(cfg)
	switch {
	case err != nil:
		b.fail(path+".typed_config", err)
	case !known:
		b.unknown(path, "action", c)
	}
	return a
}

func (b *builder[D, A]) list(path string, m *xdsmatcherv3.Matcher_MatcherList, none *branch[D, A]) node[D, A] {
	if len(m.GetMatchers()) == 0 {
		b.fail(path, errors.New("the list is empty"))
	}
	out := &list[D, A]{none: none}
	for i, f := range m.GetMatchers() {
		at := fmt.Sprintf("%s[%d]", path, i)
		out.entries = append(out.entries, entry[D, A]{b.predicate(at+".predicate", f.GetPredicate()), b.branch(at+".on_match", f.GetOnMatch())})
	}
	return out
}

func (b *builder[D, A]) tree(path string, m *xdsmatcherv3.Matcher_MatcherTree, none *branch[D, A]) node[D, A] {
	in := b.text(path+".input", m.GetInput())
	switch t := m.GetTreeType().(type) {
	case *xdsmatcherv3.Matcher_MatcherTree_ExactMatchMap:
		return &exact[D, A]{in, b.keys(path+".exact_match_map.map", t.ExactMatchMap), none}
	case *xdsmatcherv3.Matcher_MatcherTree_PrefixMatchMap:
		out := &prefix[D, A]{input: in, keys: b.keys(path+".prefix_match_map.map", t.PrefixMatchMap), none: none}
		for key := range out.keys {
			out.lengths = append(out.lengths, len(key))
		}
		out.lengths = descending(out.lengths)
		return out
	case *xdsmatcherv3.Matcher_MatcherTree_CustomMatch:
		return b.custom(path+".custom_match", t.CustomMatch, in, none)
	default:
		b.fail(path, errors.New("no tree_type: set exact_match_map, prefix_match_map or custom_match"))
		return nil
	}
}

func (b *builder[D, A]) keys(path string, m *xdsmatcherv3.Matcher_MatcherTree_MatchMap) map[string]*branch[D, A] {
	if len(m.GetMap()) == 0 {
		b.fail(path, errors.New("the map is empty"))
	}
	out := make(map[string]*branch[D, A], len(m.GetMap()))
	for key, on := range m.GetMap() {
		out[key] = b.branch(fmt.Sprintf("%s[%q]", path, key), on)
	}
	return out
}

// custom builds the trees that are extensions.
func (b *builder[D, A]) custom(path string, c *xdscorev3.TypedExtensionConfig, in Input[D], none *branch[D, A]) node[D, A] {
	cfg, ok := b.unpack(path, c)
	if !ok {
		return nil
	}
	switch m := cfg.(type) {
	case *xdsmatcherv3.IPMatcher:
		return b.ranges(path+".typed_config.range_matchers", m, in, none)
	case *xdsmatcherv3.ServerNameMatcher:
		return b.domains(path+".typed_config.domain_matchers", m, in, none)
	default:
		b.unknown(path, "tree", c)
		return nil
	}
}

// text is an input that has texts.
func (b *builder[D, A]) text(path string, c *xdscorev3.TypedExtensionConfig) Input[D] {
	in := b.input(path, c)
	if in.Text == nil && in.Metadata != nil {
		b.fail(path, errors.New("metadata is no text, which a map needs: use a predicate with envoy.matching.matchers.metadata_matcher"))
	}
	return in
}

func (b *builder[D, A]) input(path string, c *xdscorev3.TypedExtensionConfig) Input[D] {
	cfg, ok := b.unpack(path, c)
	if !ok {
		return Input[D]{}
	}
	in, known, err := b.env.Input(cfg)
	switch {
	case err != nil:
		b.fail(path+".typed_config", err)
	case !known:
		b.unknown(path, "input", c)
	}
	return in
}

func (b *builder[D, A]) unpack(path string, c *xdscorev3.TypedExtensionConfig) (proto.Message, bool) {
	if c.GetTypedConfig() == nil {
		b.fail(path, errors.New("there is no typed_config"))
		return nil, false
	}
	cfg, err := b.env.Unpack(c.GetTypedConfig())
	if err != nil {
		b.fail(path+".typed_config", err)
		return nil, false
	}
	return cfg, true
}

func (b *builder[D, A]) unknown(path, what string, c *xdscorev3.TypedExtensionConfig) {
	b.fail(path, fmt.Errorf("%s %q of type %s is not built, or not for this place", what, c.GetName(), c.GetTypedConfig().MessageName()))
}

// descending sorts lengths, the longest first, each once.
func descending(list []int) []int {
	slices.SortFunc(list, func(a, b int) int { return b - a })
	return slices.Compact(list)
}
