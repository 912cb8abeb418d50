package client

import "bytes"

// A server that sends everything again does so in the same order, and of most
// resources the bytes are those that are held. So each resource is compared with
// the one that followed last time, before its name is read and looked up: that
// costs ten times as much.

// predict returns the entry of a resource that is held as it came, if the order
// is that of the response before; else nil, which says nothing.
func (rc *reception) predict(raw *Raw) *entry {
	e := rc.next
	switch {
	case e == nil || !e.held || !e.plain || raw.Name != "" || !raw.HasBody:
	case e.seen == rc.c.turn || raw.TypeURL != rc.r.TypeURL:
	case !rc.wild && !rc.x.active(e):
	case bytes.Equal(e.body, raw.Body):
		return e
	}
	return nil
}

// follow notes the order of the resources. One that is new to it comes in
// between, so that the prediction stays.
func (rc *reception) follow(e *entry) {
	if rc.last == nil {
		rc.x.first = e
	} else {
		rc.last.next = e
	}
	rc.last = e
	if e.next != nil {
		rc.next = e.next
	}
}
