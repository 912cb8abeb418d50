package consistent

// Shuffle goes through indexes in an order that follows from a hash: where a
// request goes whose member is overloaded (LB-06). It is used again and again, on
// one worker.
type Shuffle struct {
	order []uint32
	at    int
	rand  mersenne
}

// Start begins with the order of n indexes for a hash. It allocates only if n is
// larger than ever before.
func (s *Shuffle) Start(hash uint64, n int) {
	if cap(s.order) < n {
		s.order = make([]uint32, n)
	}
	s.order, s.at = s.order[:n], 0
	for i := range s.order {
		s.order[i] = uint32(i)
	}
	s.rand.seed(uint32(hash))
}

// Next is the next index; false after the last.
func (s *Shuffle) Next() (int, bool) {
	if s.at == len(s.order) {
		return 0, false
	}
	i := s.at
	j := i + int(s.rand.below(uint32(len(s.order)-i)))
	s.order[i], s.order[j] = s.order[j], s.order[i]
	s.at++
	return int(s.order[i]), true
}

// mersenne is the generator MT19937 (Matsumoto, Nishimura), whose numbers for a
// seed are the same everywhere.
type mersenne struct {
	state [624]uint32
	next  int
}

func (m *mersenne) seed(seed uint32) {
	m.state[0] = seed
	for i := uint32(1); i < uint32(len(m.state)); i++ {
		before := m.state[i-1]
		m.state[i] = 1812433253*(before^before>>30) + i
	}
	m.next = len(m.state)
}

func (m *mersenne) uint32() uint32 {
	if m.next == len(m.state) {
		m.twist()
	}
	y := m.state[m.next]
	m.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

func (m *mersenne) twist() {
	const far = 397
	n := len(m.state)
	for i := range m.state {
		y := m.state[i]&0x80000000 | m.state[(i+1)%n]&0x7fffffff
		m.state[i] = m.state[(i+far)%n] ^ y>>1 ^ -(y&1)&0x9908b0df
	}
	m.next = 0
}

// below is a number from 0 to n-1.
func (m *mersenne) below(n uint32) uint32 {
	width := uint32((1 << 32) / uint64(n)) // of n = 1 it is 0: all of 32 bits
	if n == 1 {
		m.uint32()
		return 0
	}
	for {
		if x := m.uint32() / width; x < n {
			return x
		}
	}
}
