package http1

// Cases is how a message wrote the names of its headers, and its reason phrase:
// what an encoder needs to write them the same way. It belongs to the decoder
// that filled it; CopyTo keeps it longer.
type Cases struct {
	names  []byte
	ends   []int
	reason []byte
}

func (c *Cases) reset() {
	c.names, c.ends, c.reason = c.names[:0], c.ends[:0], c.reason[:0]
}

func (c *Cases) add(name []byte) {
	c.names = append(c.names, name...)
	c.ends = append(c.ends, len(c.names))
}

// CopyTo makes another value a copy that shares no memory, for a message that
// outlives its place in the decoder.
func (c *Cases) CopyTo(to *Cases) {
	to.names = append(to.names[:0], c.names...)
	to.ends = append(to.ends[:0], c.ends...)
	to.reason = append(to.reason[:0], c.reason...)
}

// Reason is the reason phrase of a response, or "".
func (c *Cases) Reason() string { return view(c.reason) }

// find is a lower-case name as it was written first.
func (c *Cases) find(name string) (string, bool) {
	for i := range c.ends {
		if s := c.at(i); equalFold(s, name) {
			return s, true
		}
	}
	return "", false
}

func (c *Cases) at(i int) string {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return view(c.names[start:c.ends[i]])
}

// appendProper writes a name with an upper-case letter at its begin and behind
// everything that is neither letter nor digit.
func appendProper(dst []byte, name string) []byte {
	up := true
	for i := range len(name) {
		c := name[i]
		letter := c|0x20-'a' < 26
		if up && letter {
			c &^= 0x20
		}
		up = !letter && c-'0' > 9
		dst = append(dst, c)
	}
	return dst
}
