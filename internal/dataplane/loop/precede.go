package loop

// Precede is a transport that sends some bytes as they are ahead of everything that
// t sends, such as a PROXY header before a TLS handshake (TS-24). first is asked for
// them once, on the loop, when the connection is made.
func Precede(t Transport, first func() []byte) Transport {
	return &preceded{Transport: t, ask: first}
}

type preceded struct {
	Transport
	ask    func() []byte
	first  []byte // what is left of it
	joined []byte // with what the transport has, while there is some left
}

// Start implements Transport.
func (p *preceded) Start(post func(func()) bool, onOutput func(), done func(error)) {
	p.first, p.ask = p.ask(), nil
	if len(p.first) > 0 {
		onOutput()
	}
	p.Transport.Start(post, onOutput, done)
}

// Output implements Transport: all there is, for its caller takes no second look
// once it is sent.
func (p *preceded) Output() []byte {
	if len(p.first) == 0 {
		return p.Transport.Output()
	}
	p.joined = append(append(p.joined[:0], p.first...), p.Transport.Output()...)
	return p.joined
}

// Consumed implements Transport.
func (p *preceded) Consumed(n int) {
	if k := min(n, len(p.first)); k > 0 {
		p.first = p.first[k:]
		n -= k
	}
	if len(p.first) == 0 {
		p.first, p.joined = nil, nil
	}
	if n > 0 {
		p.Transport.Consumed(n)
	}
}
