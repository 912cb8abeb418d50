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
		if n, is := m.count[own]; is && n == 0 {
			delete(m.count, own)
			m.remove(own)
		}
	}
	m.idle = nil
}
