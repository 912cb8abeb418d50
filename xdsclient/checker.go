package xdsclient

import (
	"bytes"
	"fmt"

	"github.com/xebec-proxy/xebec/internal/wire/client"
	"github.com/xebec-proxy/xebec/xdsclient/internal/message"
)

// checker reads resources for a link's channel. It is called while the source's
// mutex is held.
type checker struct{ l *link }

// Name reads a resource's name; that of a resource which is held is not
// allocated again.
func (c checker) Name(typeURL string, body []byte) (string, error) {
	t := c.l.s.types[typeURL]
	if t == nil {
		return message.Name(body) //nolint:wrapcheck // says it all
	}
	if t.nameOf != nil {
		return t.nameOf(body)
	}
	name, err := message.NameBytes(body)
	if err != nil {
		return "", err //nolint:wrapcheck // says it all
	}
	if e := t.entries[string(name)]; e != nil {
		return e.name, nil
	}
	return string(name), nil
}

// Check decodes and validates. What another server has sent before is not
// validated again; what this one has is, for it follows something that was refused.
func (c checker) Check(typeURL, name, version string, form client.Form, body []byte) (any, error) {
	t := c.l.s.types[typeURL]
	if t == nil {
		return nil, nil //nolint:nilnil // nobody will see it
	}
	if form != client.Plain {
		return c.indirect(t, name, version, form, body)
	}
	if e := t.entries[name]; e != nil && e.u != nil && e.u.form == client.Plain && e.u.server != c.l.srv.Name && bytes.Equal(e.u.body, body) {
		if !t.brief {
			return e.u.value, nil
		}
		return t.read(name, body)
	}
	v, err := t.decode(name, version, body, t.knownBy(name))
	if err != nil {
		c.l.s.count(StatUpdatesInvalid, c.l, typeURL, 1)
		return nil, err
	}
	c.l.s.count(StatUpdatesValid, c.l, typeURL, 1)
	return v, nil
}

// Leaving tells the type.
func (c checker) Leaving(typeURL string, names []string) {
	if t := c.l.s.types[typeURL]; t != nil && t.leaving != nil && !c.l.srv.Policy.KeepDeleted {
		t.leaving(names)
	}
}

// CheckAll asks the validators of the type, and then the type itself.
func (c checker) CheckAll(typeURL, version string, events []client.Event) error {
	validators := c.l.s.cfg.Validators[typeURL]
	t := c.l.s.types[typeURL]
	if len(validators) == 0 && (t == nil || t.all == nil) {
		return nil
	}
	changes := make([]Candidate, 0, len(events))
	for i := range events {
		changes = candidates(changes, &events[i])
	}
	for _, v := range validators {
		if err := v(typeURL, changes); err != nil {
			return fmt.Errorf("validating the response: %w", err)
		}
	}
	if t != nil && t.all != nil {
		return t.all(version, changes)
	}
	return nil
}

// candidates are what an event would change: of a list collection its inline entries,
// and nothing of a redirect, since where it leads comes by itself.
func candidates(list []Candidate, ev *client.Event) []Candidate {
	switch ev.Form {
	case client.Redirect:
		return list
	case client.List:
		for _, e := range entriesOf(ev.Value) {
			if e.fresh && e.err == nil {
				list = append(list, Candidate{Name: e.name, Version: e.u.version, Value: e.u.value})
			}
		}
		return list
	case client.Plain:
	}
	return append(list, Candidate{
		Name: ev.Name, Version: ev.Version, Value: ev.Value, Removed: ev.Kind == client.Missing,
	})
}
