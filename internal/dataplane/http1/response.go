package http1

import "github.com/xebec-proxy/xebec/filter/header"

// statusLine reads "HTTP/1.x SP 3DIGIT [SP reason]".
func (d *Decoder) statusLine(b []byte, h *header.Map) *Error {
	if len(b) < 12 || string(b[:7]) != "HTTP/1." || b[7]-'0' > 9 || b[8] != ' ' {
		return d.bad("a status line that is none")
	}
	if b[7] != '1' { // what a later version says of connections is not known
		d.msg.version = HTTP10
	}
	code := 0
	for _, c := range b[9:12] {
		if c-'0' > 9 {
			return d.bad("a status that is no number of three digits")
		}
		code = code*10 + int(c-'0')
	}
	if code < 100 {
		return d.bad("a status below 100")
	}
	if len(b) > 12 && b[12] != ' ' {
		return d.bad("a status that is no number of three digits")
	}
	for i := 12; i < len(b); i++ {
		if i = control(b, i); i < len(b) && b[i] != '\t' {
			return d.bad("a control character in a reason phrase")
		}
	}
	if d.o.ForwardReason && len(b) > 13 {
		d.cases.reason = append(d.cases.reason, b[13:]...)
	}
	d.msg.status = code
	if code == 200 {
		h.AddID(header.Status, "200")
	} else {
		h.AddIDBytes(header.Status, b[9:12])
	}
	return nil
}

// responseHead settles what the head of a response means once it is complete.
func (d *Decoder) responseHead(h *header.Map) (ev Event, end bool, err *Error) {
	m := &d.msg
	bodiless := m.status < 200 || m.status == 204
	if bodiless {
		if err := d.noFraming(h); err != nil {
			return NeedMore, false, err
		}
	}
	switch {
	case m.status == 101:
		if !d.request.upgrade {
			return NeedMore, false, d.bad("101 for a request that asked for no upgrade")
		}
		// Without Upgrade it switches to nothing: it is the end.
		m.upgrade, m.untilClose = h.HasID(header.Upgrade), true
		d.finish()
		return Headers, !m.upgrade, nil
	case m.status < 200:
		d.state, d.scan, d.size = stStart, 0, 0
		return Informational, false, nil
	case d.request.connect && m.status < 300:
		h.DelID(header.TransferEncoding)
		h.DelID(header.ContentLength)
		m.upgrade = true
		d.finish()
		return Headers, false, nil
	}
	if err := d.coding(h); err != nil {
		return NeedMore, false, err
	}
	switch {
	case bodiless || d.request.head || m.status == 304:
	case m.codings > 0:
		// Chunks mean nothing to an HTTP/1.0 server: what it wrote behind them
		// is not to be trusted.
		m.untilClose = m.version == HTTP10
		d.state, d.size, d.count = stChunkSize, 0, 0
		return Headers, false, nil
	case m.lengths == 0:
		m.untilClose = true
		d.state = stUntilClose
		return Headers, false, nil
	case m.length > 0:
		d.state, d.remain = stLength, m.length
		return Headers, false, nil
	}
	d.finish()
	return Headers, true, nil
}

// noFraming refuses the framing of a body where none can be.
func (d *Decoder) noFraming(h *header.Map) *Error {
	m := &d.msg
	switch {
	case m.codings > 0:
		return d.fail(502, DetailNoTransferCoding, "Transfer-Encoding in a response without a body")
	case m.length > 0:
		return d.fail(502, DetailNoContentLength, "Content-Length in a response without a body")
	}
	h.DelID(header.ContentLength)
	return nil
}
