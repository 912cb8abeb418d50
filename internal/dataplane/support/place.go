package support

import (
	"strconv"
	"strings"
)

// place is where a walk is. It is only put into words for a finding: a message
// that is in order costs no text.
type place []step

// step is a field, with the element of it that is looked at.
type step struct {
	field string
	kind  element
	index int
	key   string
}

type element uint8

const (
	whole element = iota
	indexed
	keyed
)

// enter goes into a field of the message that the place is in.
func (p *place) enter(field string) { *p = append(*p, step{field: field}) }

// leave goes back from the last field.
func (p *place) leave() { *p = (*p)[:len(*p)-1] }

// at chooses an element of the last field, a list.
func (p place) at(i int) {
	last := &p[len(p)-1]
	last.kind, last.index = indexed, i
}

// atKey chooses an entry of the last field, a map.
func (p place) atKey(key string) {
	last := &p[len(p)-1]
	last.kind, last.key = keyed, key
}

func (p place) String() string {
	var b strings.Builder
	for i := range p {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(p[i].field)
		switch p[i].kind {
		case whole:
		case indexed:
			b.WriteString("[" + strconv.Itoa(p[i].index) + "]")
		case keyed:
			b.WriteString("[" + strconv.Quote(p[i].key) + "]")
		}
	}
	return b.String()
}
