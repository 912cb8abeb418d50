package chain

import (
	"unsafe"

	"github.com/xebec-proxy/xebec/filter"
)

// LocalReply answers the request (HC-49): through all encoders; straight to
// the owner if a response was on its way through them; and if its head is out
// already, the stream is reset. What a decoder asks for is done when it has
// returned.
func (c *Chain) LocalReply(r *filter.LocalReply) {
	if c.closed() || c.hasPending || !c.watchersAllow(r) {
		return
	}
	switch {
	case c.headersSent:
		c.owner.Reset(r.Details)
	case c.headersSeen:
		c.bypass(r)
	case c.req.calling.kind != noCall:
		c.replied, c.hasPending, c.pending = true, true, *r
	default:
		c.reply(r)
	}
}

// watchersAllow tells every filter of the reply; one may reset the stream.
func (c *Chain) watchersAllow(r *filter.LocalReply) bool {
	reset := false
	for i := range c.entries[:c.used] {
		c.each(i, func(f any) {
			if w, ok := f.(filter.LocalReplyWatcher); ok && w.OnLocalReply(r) {
				reset = true
			}
		})
		if c.dead {
			return false
		}
	}
	if reset {
		c.owner.Reset(r.Details)
	}
	return !reset
}

// reply answers through the encoders.
func (c *Chain) reply(r *filter.LocalReply) {
	c.replied = true
	c.localResp.Reset()
	body := c.owner.FillLocalReply(r, &c.localResp)
	c.startResponse(&c.localResp, body == "")
	if body != "" && !c.closed() {
		c.moreResponse(bytesOf(body), true)
	}
}

// bypass answers without asking the encoders.
func (c *Chain) bypass(r *filter.LocalReply) {
	c.replied, c.bypassed = true, true
	c.directResp.Reset()
	body := c.owner.FillLocalReply(r, &c.directResp)
	c.respHeaders, c.resp.trailers = &c.directResp, nil
	for i := range c.entries[:c.used] {
		c.letGo(&c.entries[i].enc)
	}
	c.responseDrained()
	c.sendHeaders(&c.directResp, body == "")
	if body != "" && !c.dead {
		c.respDone = true
		c.owner.EncodedData(bytesOf(body), true)
	}
}

// bytesOf are a text's bytes, which nobody may write to.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
