package cluster

// leftover are the hosts of a set that have not been found again in the next one.
// Mostly all are there again and in the same order, or nearly; so they are looked for
// where they are expected, before they are put into an index.
type leftover struct {
	old   []*Host
	taken []bool
	first int // all before it are taken
	index map[string][]int
}

func newLeftover(old []*Host) *leftover { return &leftover{old: old, taken: make([]bool, len(old))} }

// take is the first host that is left and that a spec means (CM-17), or nil.
func (l *leftover) take(s *hostSpec) *Host {
	for l.first < len(l.old) && l.taken[l.first] {
		l.first++
	}
	i := l.find(s)
	if i < 0 {
		return nil
	}
	l.taken[i] = true
	return l.old[i]
}

func (l *leftover) find(s *hostSpec) int {
	switch {
	case l.first == len(l.old):
		return -1
	case l.old[l.first].means(s):
		return l.first
	case l.index == nil && len(l.old)-l.first > fewHosts:
		l.index = make(map[string][]int, len(l.old)-l.first)
		for i := l.first; i < len(l.old); i++ {
			k := l.old[i].key()
			l.index[k] = append(l.index[k], i)
		}
	}
	if l.index != nil {
		k := s.key()
		list := l.index[k]
		for len(list) > 0 && l.taken[list[0]] {
			list = list[1:]
		}
		l.index[k] = list
		if len(list) == 0 {
			return -1
		}
		return list[0]
	}
	for i := l.first + 1; i < len(l.old); i++ {
		if !l.taken[i] && l.old[i].means(s) {
			return i
		}
	}
	return -1
}

// rest are the hosts that are left.
func (l *leftover) rest() (hosts []*Host) {
	for i := l.first; i < len(l.old); i++ {
		if !l.taken[i] {
			hosts = append(hosts, l.old[i])
		}
	}
	return hosts
}

// means reports whether a spec is of this host: whether their keys are the same.
func (h *Host) means(s *hostSpec) bool {
	if h.hostname != s.hostname || h.logical != s.logical {
		return false
	}
	return h.logical || h.check.equal(s.check) && h.where.Load().equal(&s.where)
}

// equal reports whether checks go to the same place.
func (t *checkTarget) equal(o *checkTarget) bool { return t == o || t != nil && o != nil && *t == *o }
