package stats

import "strings"

// Scope is a prefix of names. It is immutable and safe for concurrent use.
type Scope struct {
	reg    *Registry
	prefix string // ends in a dot unless empty
	own    *owner // of the names, or nil
}

// Scope returns the scope of the names that begin with prefix, which is
// sanitised by [Sanitize] and joined to what follows by a dot. An empty prefix
// is the root.
func (r *Registry) Scope(prefix string) *Scope { return (&Scope{reg: r}).Scope(prefix) }

// Scope returns a scope below s. The prefix is sanitised.
func (s *Scope) Scope(prefix string) *Scope { return s.RawScope(Sanitize(prefix)) }

// RawScope is Scope without the sanitising: Envoy keeps a ':' in the names of
// virtual hosts and virtual clusters, for instance.
func (s *Scope) RawScope(prefix string) *Scope {
	if prefix == "" {
		return s
	}
	return &Scope{reg: s.reg, prefix: s.prefix + prefix + ".", own: s.own}
}

// Prefix is the scope's prefix with its final dot.
func (s *Scope) Prefix() string { return s.prefix }

// Counter returns the counter of this name, the same for the same name. The
// name is used as it is.
func (s *Scope) Counter(name string) Counter {
	return Counter(s.reg.id(kindCounter, s.prefix, name, Unspecified, s.own))
}

// Gauge returns the gauge of this name, the same for the same name.
func (s *Scope) Gauge(name string) Gauge {
	return Gauge(s.reg.id(kindGauge, s.prefix, name, Unspecified, s.own))
}

// Histogram returns the histogram of this name, the same for the same name;
// the unit is that of the first call.
func (s *Scope) Histogram(name string, unit Unit) Histogram {
	return Histogram(s.reg.id(kindHistogram, s.prefix, name, unit, s.own))
}

// Text returns the text readout of this name, the same for the same name, or
// nil (on which Set is allowed) when the stats matcher rejects it.
func (s *Scope) Text(name string) *Text { return s.reg.text(s.prefix+name, s.own) }

// Sanitize makes a text from a configuration fit to be part of a name, as
// Envoy does: dots at the ends go, and "://", ":/", ":" and NUL become "_". A
// listener at [::1]:80 is "listener.[__1]_80".
func Sanitize(s string) string {
	s = strings.TrimSuffix(s, ".")
	s = strings.TrimPrefix(s, ".")
	if !strings.ContainsAny(s, ":\x00") {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case ':':
			b.WriteByte('_')
			rest := s[i+1:]
			if strings.HasPrefix(rest, "//") {
				i += 2
			} else if strings.HasPrefix(rest, "/") {
				i++
			}
		case 0:
			b.WriteByte('_')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}
