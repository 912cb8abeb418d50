package hcm

import (
	"fmt"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// anyString compiles matchers of which one must match; nil for none.
func anyString(path string, list []*matcherv3.StringMatcher) (func(string) bool, error) {
	var all []stringmatch.Matcher
	for i, m := range list {
		f, err := stringmatch.Compile(fmt.Sprintf("%s[%d]", path, i), m)
		if err != nil {
			return nil, err //nolint:wrapcheck // it names the field
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, nil //nolint:nilnil // nothing matches
	}
	return func(s string) bool {
		for i := range all {
			if all[i].Match(s) {
				return true
			}
		}
		return false
	}, nil
}
