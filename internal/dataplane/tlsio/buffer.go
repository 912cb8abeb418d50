package tlsio

import "sync"

// Buffers larger than this are left to the garbage collector instead of being
// kept for the next session.
const maxPooledBuffer = 256 << 10

// buffer is a queue of bytes: appended at the end, taken from the front.
type buffer struct {
	b   []byte
	off int
}

func (b *buffer) bytes() []byte { return b.b[b.off:] }

// buffers lends buffers to sessions for as long as they hold something, so
// that an idle session holds none. Safe for concurrent use.
type buffers struct {
	pool sync.Pool
}

func (p *buffers) get() *buffer {
	if b, ok := p.pool.Get().(*buffer); ok {
		return b
	}
	return &buffer{b: make([]byte, 0, 4<<10)}
}

func (p *buffers) put(b *buffer) {
	if cap(b.b) > maxPooledBuffer {
		return
	}
	// What is kept for others must not hold plaintext or keys. It does not:
	// only ciphertext passes through here.
	b.b, b.off = b.b[:0], 0
	p.pool.Put(b)
}

// add appends to a buffer, getting one if there is none.
func (p *buffers) add(b *buffer, data []byte) *buffer {
	if len(data) == 0 {
		return b
	}
	if b == nil {
		b = p.get()
	}
	// A queue that never runs empty must not grow for ever at its end. Moving
	// no more than was taken keeps the cost in proportion.
	if len(b.b)+len(data) > cap(b.b) && b.off >= len(b.b)-b.off {
		b.b = b.b[:copy(b.b, b.b[b.off:])]
		b.off = 0
	}
	b.b = append(b.b, data...)
	return b
}

// drop takes n bytes from the front and gives the buffer back when it is empty.
func (p *buffers) drop(b *buffer, n int) *buffer {
	if b == nil {
		return nil
	}
	b.off += n
	if b.off < len(b.b) {
		return b
	}
	p.put(b)
	return nil
}
