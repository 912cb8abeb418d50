package proxy

import (
	"errors"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// sourced is the state of something that is discovered, of one source.
type sourced interface {
	comparable
	from() *corev3.ConfigSource
}

func (s *edsState) from() *corev3.ConfigSource       { return s.source }
func (s *localityState) from() *corev3.ConfigSource  { return s.source }
func (s *routeState) from() *corev3.ConfigSource     { return s.source }
func (s *scopeState) from() *corev3.ConfigSource     { return s.source }
func (s *hostSet) from() *corev3.ConfigSource        { return s.source }
func (s *askedSet) from() *corev3.ConfigSource       { return s.source }
func (s *secretState) from() *corev3.ConfigSource    { return s.source }
func (s *extensionState) from() *corev3.ConfigSource { return s.source }

// ofSource are those of the states that are of a source; nil is any. What they
// lead to may change the list.
func ofSource[S sourced](list []S, source *corev3.ConfigSource) []S {
	var out []S
	for _, s := range list {
		if sameSource(s.from(), source) {
			out = append(out, s)
		}
	}
	return out
}

// oneOfSource is the state of a source, or nil.
func oneOfSource[S sourced](list []S, source *corev3.ConfigSource) (s S) {
	if i := slices.IndexFunc(list, func(s S) bool { return sameSource(s.from(), source) }); i >= 0 {
		s = list[i]
	}
	return s
}

// setOfSource hands something to the states of a source, with the configuration
// locked, and gives what is wrong with it for any of them.
func setOfSource[S sourced](r *Resources, list func() []S, source *corev3.ConfigSource, set func(S) error) error {
	r.lock()
	defer r.unlock()
	if r.stopped {
		return ErrStopped
	}
	var errs []error
	for _, s := range ofSource(list(), source) {
		errs = append(errs, set(s))
	}
	return errors.Join(errs...)
}

// forget takes a state out of those of its name.
func forget[S sourced](all map[string][]S, name string, s S) {
	list := slices.DeleteFunc(all[name], func(x S) bool { return x == s })
	if len(list) == 0 {
		delete(all, name)
		return
	}
	all[name] = list
}
