package filter

// Buffer holds body or connection bytes on their way through filters. A
// filter may read, drain, replace and extend it during its callback; what it
// wants to keep longer must be copied. Confined to the stream's worker.
type Buffer struct {
	b     []byte
	owned bool // b may be written to and kept
}

// View makes the buffer show bytes that belong to somebody else, without a copy.
func (b *Buffer) View(data []byte) { b.b, b.owned = data, false }

// Bytes are the contents, valid until the next change and only during the
// callback that gave the buffer. They must not be written to.
func (b *Buffer) Bytes() []byte { return b.b }

// Len is the number of bytes.
func (b *Buffer) Len() int { return len(b.b) }

// Append copies bytes to the end.
func (b *Buffer) Append(data []byte) {
	if len(data) == 0 {
		return
	}
	b.Own()
	b.b = append(b.b, data...)
}

// AppendString copies a string to the end.
func (b *Buffer) AppendString(s string) {
	if s == "" {
		return
	}
	b.Own()
	b.b = append(b.b, s...)
}

// Prepend copies bytes to the beginning.
func (b *Buffer) Prepend(data []byte) {
	joined := make([]byte, 0, len(data)+len(b.b))
	b.b, b.owned = append(append(joined, data...), b.b...), true
}

// Move takes all bytes of another buffer and puts them at the end; without a
// copy where there is nothing before them and they are that buffer's own.
func (b *Buffer) Move(from *Buffer) {
	if len(b.b) == 0 && from.owned {
		*b, *from = *from, *b
		from.Reset()
		return
	}
	b.Append(from.b)
	from.Reset()
}

// Drain removes bytes from the beginning: at most Len.
func (b *Buffer) Drain(n int) { b.b = b.b[min(n, len(b.b)):] }

// Reset removes everything. Memory of its own is kept unless it is large.
func (b *Buffer) Reset() {
	const keep = 64 << 10
	if !b.owned || cap(b.b) > keep {
		b.b, b.owned = nil, false
		return
	}
	b.b = b.b[:0]
}

// Own makes the contents the buffer's own copy, so that they survive the
// callback.
func (b *Buffer) Own() {
	if !b.owned {
		b.b, b.owned = append(make([]byte, 0, max(len(b.b), 512)), b.b...), true
	}
}
