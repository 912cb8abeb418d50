package client

import (
	"bytes"
	"time"
)

// entry is what a channel knows of one name: a resource, an alias, a glob
// collection or the wildcard.
type entry struct {
	sub     *sub
	name    string
	version string
	body    []byte
	// updated is when the body was received, due when the timer runs out.
	updated, due time.Duration
	more         *more
	next         *entry // what came after it when it came last, in SotW
	slot         int32  // place among the timers, from 1; 0: no timer
	seen         uint32 // the last response that named it
	sent         uint32 // the stream whose server was told that it is wanted
	state        state
	form         Form // of what is held

	wanted bool // subscribed to by this name
	held   bool // body and version are the server's last good word
	plain  bool // what is held came without a name but the body's own
	// again: given up and taken up before the server was told (XC-22), or to be
	// repeated.
	again  bool
	queued bool // among the dirty ones
	// received: held or rejected since it was last asked for, so that a full
	// state without it says that it is gone (XC-15).
	received bool
	awaited  bool // a repetition is to be told
	twice    bool // named twice in the response at hand
}

// more is what few entries have.
type more struct {
	aliases []string
	failure *failure
}

// state is what the server has said of a name.
type state uint8

const (
	requested state = iota
	present
	missing
)

// failure is why the last thing heard of a resource was no good.
type failure struct {
	kind    Kind
	err     error
	version string
	at      time.Duration
	// body was refused for itself, in this form; nil if the response was.
	body    []byte
	form    Form
	timeout bool
	// flaw says that a part of what is held was refused.
	flaw bool
}

// refused reports whether the last thing heard was refused as a whole: what comes next
// is looked at then, even if it is what is held, so that who refused the one knows that
// the other is in force again.
func (f *failure) refused() bool { return f != nil && f.kind == Rejected && !f.flaw }

// tells reports whether the failure is that this body is refused, for this reason.
func (f *failure) tells(form Form, body []byte, err error) bool {
	return f.refused() && f.body != nil && f.form == form && bytes.Equal(f.body, body) && f.err.Error() == err.Error()
}

func (e *entry) failure() *failure {
	if e.more == nil {
		return nil
	}
	return e.more.failure
}

func (e *entry) aliases() []string {
	if e.more == nil {
		return nil
	}
	return e.more.aliases
}

// fail notes a failure, or with nil that it is over.
func (e *entry) fail(f *failure) {
	switch {
	case e.more != nil:
		e.more.failure = f
		if f == nil && !e.held {
			e.sub.unlink(e)
		}
	case f != nil:
		e.more = &more{failure: f}
		return
	default:
		return
	}
	if f == nil && e.more != nil && e.more.aliases == nil {
		e.more = nil
	}
}

func (e *entry) setAliases(list []string) {
	switch {
	case e.more != nil:
		e.more.aliases = list
	case len(list) > 0:
		e.more = &more{aliases: list}
		return
	default:
		return
	}
	if len(list) == 0 && e.more.failure == nil {
		e.more = nil
	}
}
