package discovery

import (
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/xdsclient"
)

// named is a cluster or a listener, which has a name of its own: it need not be that
// of the resource, which may be an entry of a list, or found by a redirect.
type named interface {
	proto.Message
	GetName() string
}

// members are all resources of a type, under the names that their source tells.
// Only its callbacks use them.
type members[T named] struct {
	scope  string // of the statistics
	set    func(v T, version string) error
	remove func(name string)

	own   map[string]string // their own names
	count map[string]int    // how many have an own name
	idle  []string          // those that no member has, unless another has got it since
	// refused are the own names of what was refused last. The target shows why until
	// it is told otherwise.
	refused map[string]string
	// leaves is told of members that the response at hand removes; nil for nobody.
	leaves  func(names []string)
	leaving bool // it was told
}

// judge notes whether what was sent under a name was refused.
func (m *members[T]) judge(name, own string, err error) {
	if before, was := m.refused[name]; was {
		delete(m.refused, name)
		if m.count[before] == 0 && before != own {
			m.idle = append(m.idle, before)
		}
	}
	if err == nil {
		return
	}
	if m.refused == nil {
		m.refused = map[string]string{}
	}
	m.refused[name] = own
}

// leave says which members there are no more after the response at hand.
func (m *members[T]) leave(names []string) {
	left := map[string]int{}
	for _, name := range names {
		if own, is := m.own[name]; is {
			left[own]++
		}
	}
	var gone []string
	for own, n := range left {
		if n == m.count[own] {
			gone = append(gone, own)
		}
	}
	if len(gone) > 0 {
		m.leaving = true
		m.leaves(gone)
	}
}

// change notes what a member is now. It is in force, since it was set while it was
// validated, unless it had come before it was a member.
func (m *members[T]) change(d *Discovery, of whole, u *xdsclient.Update[T]) {
	name := u.Value.GetName()
	if before, was := m.own[u.Name]; !was || before != name {
		if m.own == nil {
			m.own, m.count = map[string]string{}, map[string]int{}
		}
		m.count[name]++
		m.own[u.Name] = name
		if was {
			m.drop(before)
		}
	}
	if !of.list && u.Found == u.Name {
		return
	}
	if err := m.set(u.Value, u.Version); err != nil {
		d.cfg.Logger.Warn("a resource that was good is refused", "resource", u.Name, "found", u.Found, "error", err)
	}
}

// lose takes a member away.
func (m *members[T]) lose(name string) {
	m.judge(name, "", nil)
	own, was := m.own[name]
	if !was {
		return
	}
	delete(m.own, name)
	m.drop(own)
}

// drop notes that a member has a name no more.
func (m *members[T]) drop(own string) {
	if m.count[own]--; m.count[own] == 0 {
		m.idle = append(m.idle, own)
	}
}

// settle follows a response: what no member has a name for any more is removed. Not
// before, since what one member has given up another may have got by the same
// response, and that was set while it was validated.
func (m *members[T]) settle() {
	for _, own := range m.idle {
		if m.count[own] == 0 && !m.refuses(own) {
			delete(m.count, own)
			m.remove(own)
		}
	}
	m.idle = nil
	if m.leaving {
		m.leaving = false
		m.leaves(nil)
	}
}

// refuses reports whether something of a name was refused last.
func (m *members[T]) refuses(own string) bool {
	for _, name := range m.refused {
		if name == own {
			return true
		}
	}
	return false
}
