package client

import (
	"slices"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// Channel is the client's side of one logical stream.
type Channel struct {
	cfg  Config
	subs map[string]*sub
	// order is the subs in the order in which their first requests are sent.
	order []*sub
	// answers are the responses to be answered from head on, oldest first.
	answers []answer
	head    int
	timers  timers
	bucket  bucket

	open, nodeSent, answered bool
	// loose says that names were given up that the server was not told of.
	loose bool
	// base is the time from which times are counted.
	base time.Time
	// epoch numbers the streams, turn the responses.
	epoch, turn uint32
	scratch     []item
}

// answer is a response to be answered.
type answer struct {
	sub                     *sub
	nonce, version, problem string
}

// New makes a channel without a stream.
func New(cfg Config) *Channel {
	return &Channel{cfg: cfg.withDefaults(), subs: map[string]*sub{}, bucket: newBucket(cfg.Limit)}
}

// since is a time as the channel counts it.
func (c *Channel) since(now time.Time) time.Duration {
	if c.base.IsZero() {
		c.base = now
	}
	return now.Sub(c.base)
}

func (c *Channel) at(d time.Duration) time.Time { return c.base.Add(d) }

// Subscribe asks for a resource by its name or alias, for everything of the
// type with "*", or in delta for a glob collection (XN-05). It is idempotent.
// What is held is kept: a name that was given up and is taken up again before a
// request told the server so is as if it had never been given up, except that
// it is asked for again in delta (XC-22, GC-37).
func (c *Channel) Subscribe(t xds.Type, name string) {
	c.of(t).subscribe(canonical(name))
}

// Unsubscribe gives up a name. What is held of it is forgotten when the request
// that says so is handed out, or a new stream needs none.
func (c *Channel) Unsubscribe(typeURL, name string) {
	if x := c.subs[typeURL]; x != nil {
		x.unsubscribe(canonical(name))
	}
}

// Await makes the next receipt of a resource an event even if it did not
// change, for a parent that waits for its repetition (XC-41). It has no effect
// on names that the channel does not know.
func (c *Channel) Await(typeURL, name string) {
	if e := c.find(typeURL, name); e != nil {
		e.awaited = true
	}
}

// Repeat asks the server to send a resource again that it has been asked for: in
// delta by subscribing to it once more, in SotW by saying the same again, which
// some servers answer while a parent warms (XC-43). It has no effect on names that
// are not wanted, or that the next request names anyway.
func (c *Channel) Repeat(typeURL, name string) {
	x := c.subs[typeURL]
	if x == nil {
		return
	}
	e := x.names[canonical(name)]
	switch {
	case e == nil || !e.wanted || !x.opened || !x.told(e):
	case !c.cfg.Delta:
		x.repeat = true
	default:
		before := x.pending(e)
		e.again = true
		x.note(e, before)
	}
}

// Forget drops what is held of a resource that is subscribed to, so that the
// next receipt is a change. The server does not learn of it before the next
// stream.
func (c *Channel) Forget(typeURL, name string) {
	e := c.find(typeURL, name)
	if e == nil || !e.held {
		return
	}
	x := c.subs[typeURL]
	x.lose(e)
	x.exact = false
	e.state = missing
	if !x.covered(e.name, nil) {
		x.drop(e)
	}
}

// Held is a resource that is held from elsewhere.
type Held struct {
	Name, Version string
	Aliases       []string
	Form          Form
	Body          []byte
}

// Seed tells what is held of a resource from elsewhere, such as a file or
// another server. It is kept only if it is subscribed to when a stream's first
// request for the type is made, and does not replace what a server has sent.
func (c *Channel) Seed(typeURL string, r Held) {
	x := c.subs[typeURL]
	if x == nil {
		t, ok := xds.LookupType(typeURL)
		if !ok {
			t = xds.Type{URL: typeURL}
		}
		x = c.of(t)
	}
	name := canonical(r.Name)
	if name == wildcard || x.isGlob(name) || x.opened && !x.covered(name, r.Aliases) {
		return
	}
	e := x.make(name)
	if e.held {
		return
	}
	c.timers.stop(e)
	e.held, e.state, e.version, e.form, e.body = true, present, r.Version, r.Form, r.Body
	x.unlink(e)
	e.setAliases(r.Aliases)
	x.link(e)
	x.exact = false
}

func (c *Channel) of(t xds.Type) *sub {
	x := c.subs[t.URL]
	if x == nil {
		x = &sub{ch: c, typ: t, names: map[string]*entry{}}
		c.subs[t.URL] = x
		i := 0
		for i < len(c.order) && rank(c.order[i].typ.URL) <= rank(t.URL) {
			i++
		}
		c.order = slices.Insert(c.order, i, x)
	}
	if x.wanted == 0 {
		x.typ = t
	}
	return x
}

// rank orders types as a server sends them (XS-67), so that what is referred to
// is asked for first (XC-26).
func rank(typeURL string) int {
	all := xds.Types()
	if i := slices.IndexFunc(all, func(t xds.Type) bool { return t.URL == typeURL }); i >= 0 {
		return i
	}
	return len(all)
}

func (c *Channel) find(typeURL, name string) *entry {
	x := c.subs[typeURL]
	if x == nil {
		return nil
	}
	return x.names[canonical(name)]
}

// Open begins a stream: nonces are forgotten, and everything wanted is due
// (GC-40, XC-05).
func (c *Channel) Open(now time.Time) {
	if c.open {
		c.Closed(now)
	}
	c.since(now)
	c.open, c.nodeSent, c.answered = true, false, false
	c.epoch++
	c.forgetLoose()
}

// forgetLoose forgets what nobody wants and the server was not asked for.
func (c *Channel) forgetLoose() {
	c.loose = false
	c.order = slices.DeleteFunc(c.order, func(x *sub) bool {
		if x.opened {
			x.tidy()
		}
		if x.wanted > 0 || x.opened {
			return false
		}
		for _, e := range x.names {
			c.timers.stop(e)
		}
		delete(c.subs, x.typ.URL)
		return true
	})
}

// Closed ends the stream. What is held stays (GC-51), and times to live run on;
// what was asked for and not heard of is no longer waited for (XC-18). It
// reports whether a response came on the stream: if not, the end is a
// connectivity error (GC-49, XC-28).
func (c *Channel) Closed(now time.Time) (answered bool) {
	c.since(now)
	if !c.open {
		return false
	}
	c.open = false
	clear(c.answers)
	c.answers, c.head = c.answers[:0], 0
	c.timers.stopRequests()
	for _, x := range c.order {
		x.close()
	}
	return c.answered
}

// close forgets what belongs to a stream.
func (x *sub) close() {
	x.opened, x.named, x.sure, x.hollow, x.nonce, x.until = false, false, false, false, "", 0
	for _, e := range x.dirty {
		e.queued = false
	}
	x.dirty, x.changes, x.shed = nil, 0, nil
	for name, e := range x.names {
		e.again = false
		if !e.wanted && !e.held && e.failure() == nil && !x.leads(name) {
			x.drop(e)
		}
	}
}
