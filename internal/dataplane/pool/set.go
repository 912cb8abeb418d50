package pool

// Set is the clusters of one worker. Confined to it.
type Set struct {
	byName map[string]*Cluster
	last   *Cluster // that was asked for
}

// Add puts a cluster in, in place of one with the same name, which is returned.
func (s *Set) Add(c *Cluster) (old *Cluster) {
	if s.byName == nil {
		s.byName = map[string]*Cluster{}
	}
	s.last = nil
	old = s.byName[c.Cfg.Name()]
	s.byName[c.Cfg.Name()] = c
	return old
}

// Remove takes a cluster out, which is returned; nil if there is none.
func (s *Set) Remove(name string) (old *Cluster) {
	s.last = nil
	old = s.byName[name]
	delete(s.byName, name)
	return old
}

// Cluster is the cluster of a name, or nil. A request asks for the same one more
// than once.
func (s *Set) Cluster(name string) *Cluster {
	if c := s.last; c != nil && c.Cfg.Name() == name {
		return c
	}
	c := s.byName[name]
	s.last = c
	return c
}

// Drain drains every cluster.
func (s *Set) Drain() {
	for _, c := range s.byName {
		c.Drain()
	}
}
