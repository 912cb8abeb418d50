package healthcheck

import (
	"bytes"
	"encoding/hex"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// payload reads bytes that are written as hexadecimal text, or as they are.
func payload(path string, p *corev3.HealthCheck_Payload) ([]byte, error) {
	if b, ok := p.GetPayload().(*corev3.HealthCheck_Payload_Binary); ok {
		return b.Binary, nil
	}
	b, err := hex.DecodeString(p.GetText())
	if err != nil {
		return nil, fmt.Errorf("%s.text: invalid hex string '%s'", path, p.GetText())
	}
	return b, nil
}

func payloads(path string, list []*corev3.HealthCheck_Payload) ([][]byte, error) {
	var blocks [][]byte
	for i, p := range list {
		b, err := payload(fmt.Sprintf("%s[%d]", path, i), p)
		if err != nil {
			return nil, err
		}
		if len(b) > 0 {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// finder looks for blocks in a stream, each behind the one before, with anything in
// between. It keeps less than a block of the stream.
type finder struct {
	blocks [][]byte // that are still to be found
	tail   []byte   // of the stream, that the next block may begin in
}

func newFinder(blocks [][]byte) finder { return finder{blocks: blocks} }

// done reports whether every block was found.
func (f *finder) done() bool { return len(f.blocks) == 0 }

// add looks through more of the stream.
func (f *finder) add(b []byte) {
	if f.done() {
		return
	}
	f.tail = append(f.tail, b...)
	rest := f.tail
	for !f.done() {
		want := f.blocks[0]
		i := bytes.Index(rest, want)
		if i < 0 {
			rest = rest[max(0, len(rest)-len(want)+1):]
			break
		}
		rest = rest[i+len(want):]
		f.blocks = f.blocks[1:]
	}
	if f.done() {
		f.tail = nil
		return
	}
	f.tail = append(f.tail[:0], rest...)
}
