package hpack

import (
	"hash/maphash"

	"github.com/xebec-proxy/xebec/filter/header"
)

// Lists are what the decoders of a worker remember: clients alike send the same
// lists, of which one copy serves all, and an encoder knows it by that. The zero
// value is ready; it is confined to its worker.
type Lists struct {
	seed  maphash.Seed
	lists []*header.Frozen // one for each hash; what is replaced stays with its decoders
}

const numLists = 64

// freeze is a frozen copy of a list, or the one there is.
func (l *Lists) freeze(m *header.Map) *header.Frozen {
	if l.lists == nil {
		l.seed, l.lists = maphash.MakeSeed(), make([]*header.Frozen, numLists)
	}
	var h maphash.Hash
	h.SetSeed(l.seed)
	for name, value := range m.All() {
		_, _ = h.WriteString(name)
		_ = h.WriteByte(0)
		_, _ = h.WriteString(value)
		_ = h.WriteByte(0)
	}
	at := &l.lists[h.Sum64()%numLists]
	if *at == nil || !(*at).Equal(m) {
		*at = m.Freeze()
	}
	return *at
}
