package http2

import (
	"encoding/binary"

	"github.com/xebec-proxy/xebec/filter/header"
	"github.com/xebec-proxy/xebec/internal/dataplane/hpack"
)

// Handler is told what the peer did.
type Handler interface {
	// OnStream announces a stream that the peer opened. The handler sets its
	// Headers and Trailers, both empty, before it returns.
	OnStream(s *Stream)
	// OnHeaders is the request's head, or the final head of the response, in s.Headers.
	OnHeaders(s *Stream, end bool)
	// OnInformational is a 1xx head in s.Headers, which are reset afterwards.
	OnInformational(s *Stream)
	// OnData is a part of the body. Its bytes are to be acknowledged by Consumed
	// once they are passed on.
	OnData(s *Stream, b []byte, end bool)
	// OnTrailers ends the peer's side, with s.Trailers.
	OnTrailers(s *Stream)
	// OnReset is the end of a stream by the peer's RST_STREAM, GOAWAY or end of
	// the connection (remote), or by a fault of the peer that the codec answered
	// with RST_STREAM. OnClosed follows.
	OnReset(s *Stream, code ErrCode, remote bool, details string)
	// OnWritable says that the unsent bytes fell below the low watermark after
	// they were above the high one.
	OnWritable(s *Stream)
	// OnFull says that DATA stays in the buffers of the streams until Continue,
	// since Options.OutputHigh bytes wait in the output.
	OnFull()
	// OnClosed is the last call for a stream, which is used again afterwards.
	OnClosed(s *Stream)
	// OnGoAway is a GOAWAY of the peer; streams it did not process are reset next.
	OnGoAway(lastID uint32, code ErrCode)
	// OnSettings says that the peer's settings changed.
	OnSettings()
	// OnPingAck is the answer to Ping.
	OnPingAck(data [8]byte)
}

// BatchHandler is a Handler that works off the heads of a batch in steps of its own.
type BatchHandler interface {
	Handler
	// OnHeads says that all heads of a batch were told. Parts of bodies and trailers
	// that came with them follow.
	OnHeads()
}

// Counts is what happened on a connection since its owner last set it to zero,
// for Envoy's statistics "http2.<name>" (the names stand behind the fields).
type Counts struct {
	RxReset             uint64 // rx_reset: RST_STREAM for open streams
	TxReset             uint64 // tx_reset
	RxMessagingError    uint64 // rx_messaging_error: invalid messages
	Refused             uint64 // stream_refused_errors: requests beyond the limit of streams
	HeadersNoStream     uint64 // headers_cb_no_stream: header blocks for closed streams
	Trailers            uint64 // trailers received
	GoAwaySent          uint64 // goaway_sent
	DroppedUnderscores  uint64 // dropped_headers_with_underscores
	RejectedUnderscores uint64 // requests_rejected_with_underscores_in_headers
}

// Conn is one side of a connection. Call Init, then Start.
type Conn struct {
	Counts Counts

	role Role
	o    Options
	h    Handler
	out  *[]byte
	err  *ConnError
	pool *Pool
	own  Pool

	dec  hpack.Decoder
	enc  hpack.Encoder
	good goodLists

	streams  streamTable
	current  *Stream // of the last frame, or nil
	active   int
	dead     []*Stream // closed during a callback: not to be used again yet
	depth    int       // calls of the handler may be under way
	ids      []uint32  // scratch
	later    bool      // client: heads of streams may have yet to be written
	nextID   uint32    // client: of the next stream
	lastPeer uint32    // server: highest stream the peer opened
	closed   closedLog

	// input
	prefaceAt int // server: bytes of the preface seen
	settings  bool
	pend      []byte // an incomplete frame
	block     []byte // of a header block, what is not decoded
	cont      block
	in        dataFrame
	batch     *batch // within Feed, unless the handler is told just now
	telling   bool

	// what the peer allows
	sendWindow int64
	peerWindow int64 // initial, of its streams
	peerFrame  int
	peerMax    uint32
	peerConn   bool // extended CONNECT

	// what we allow
	recvWindow int64
	credit     int64 // passed on, not told yet
	initRecv   int64 // initial, of our streams as the peer knows it
	acked      bool

	blocked bool
	full    bool       // OnFull was called, Continue was not yet
	unsent  int        // bytes in the buffers of all streams
	ready   streamList // streams with unsent bytes and an open window

	goneAway   bool // the peer said so
	goingAway  bool // we said so, and mean lastOurs
	lastOurs   uint32
	outLen     int  // of *out after our last frame
	frames     int  // frames in *out
	fresh      bool // all of them came since the owner had written everything
	ctls       int  // of them, control frames
	empty      uint32
	prio, wupd uint64
	opened     uint64
	dataSent   uint64
}

// dataFrame is a DATA frame under way.
type dataFrame struct {
	on      bool
	needPad bool
	end     bool
	s       *Stream // nil to drop
	left    int     // bytes of data
	pad     int     // bytes of padding
}

// Pool keeps closed streams for the next ones, and the lists of headers that come
// again and again. It may serve all connections of a worker; the zero value is ready.
type Pool struct {
	lists   hpack.Lists
	free    []*Stream
	batches []*batch
	telling bool        // the heads of a batch are told
	heads   []laterHead // meanwhile
	pieces  [][]byte    // of backlogs
	least   int         // fewest pieces since Trim
}

func (p *Pool) get() *Stream {
	n := len(p.free)
	if n == 0 {
		return &Stream{}
	}
	s := p.free[n-1]
	p.free = p.free[:n-1]
	s.isClosed = false
	return s
}

// batch is one that is empty; most workers need a single one.
func (p *Pool) batch() *batch {
	n := len(p.batches)
	if n == 0 {
		return new(batch)
	}
	q := p.batches[n-1]
	p.batches = p.batches[:n-1]
	return q
}

func (p *Pool) giveBack(q **batch) {
	p.batches = append(p.batches, *q)
	*q = nil
}

func (p *Pool) put(s *Stream) {
	const keepStreams = 4096
	s.waiting.clear(p)
	pieces := s.waiting.pieces
	*s = Stream{}
	s.waiting.pieces, s.isClosed = pieces, true // a late call does nothing
	if len(p.free) < keepStreams {
		p.free = append(p.free, s)
	}
}

// Init makes c one side of a new connection. The codec appends plaintext to
// *out, which its owner writes and shortens; nobody else appends to it. A Conn
// may be used again by another Init, which keeps its memory.
func (c *Conn) Init(role Role, o *Options, h Handler, out *[]byte) {
	*c = Conn{
		role: role, o: o.withDefaults(), h: h, out: out, own: c.own, dec: c.dec, enc: c.enc,
		streams: c.streams, dead: c.dead[:0], ids: c.ids[:0], pend: c.pend[:0], block: c.block[:0],
		nextID: 1, sendWindow: initialWindow, peerWindow: initialWindow, peerFrame: minMaxFrame,
		peerMax: maxStreamID, outLen: len(*out), fresh: true,
	}
	clear(c.streams.slots)
	c.streams.n = 0
	c.pool = &c.own
	c.recvWindow = int64(c.o.ConnWindow)
	c.initRecv = max(int64(c.o.StreamWindow), initialWindow)
	c.dec.Init()
	c.dec.Allow(c.o.HeaderTableSize)
	c.enc.Init(c.o.HeaderTableSize)
}

// UsePool makes the connection take streams from a pool of its worker. Call it
// after Init, before the first stream.
func (c *Conn) UsePool(p *Pool) {
	c.pool = p
	c.dec.ShareLists(&p.lists)
}

// Start sends what a connection begins with.
func (c *Conn) Start() {
	out := c.begin(1, 1)
	o := &c.o
	if c.role == Client {
		out = append(out, preface...)
	}
	at := len(out)
	out = appendHead(out, 0, typeSettings, 0, 0)
	if o.HeaderTableSize != hpack.DefaultTableSize {
		out = appendSetting(out, setHeaderTableSize, o.HeaderTableSize)
	}
	if c.role == Client {
		out = appendSetting(out, setEnablePush, 0)
	} else {
		out = appendSetting(out, setMaxStreams, o.MaxConcurrentStreams)
	}
	if o.StreamWindow != initialWindow {
		out = appendSetting(out, setInitialWindow, o.StreamWindow)
	}
	if o.MaxFrameSize != minMaxFrame {
		out = appendSetting(out, setMaxFrameSize, o.MaxFrameSize)
	}
	if o.AllowConnect && c.role == Server {
		out = appendSetting(out, setEnableConnect, 1)
	}
	putLength(out[at:], len(out)-at-frameHead)
	c.commit(out)
	if o.ConnWindow > initialWindow {
		c.windowUpdate(0, int64(o.ConnWindow)-initialWindow)
	}
}

// Err is why the connection ended, or nil. A method that sends can end it too,
// when the peer reads too little of too many frames; Feed says so next.
func (c *Conn) Err() *ConnError { return c.err }

// Unsent is the number of body bytes that wait in the buffers of all streams.
func (c *Conn) Unsent() int { return c.unsent }

// Active is the number of open streams.
func (c *Conn) Active() int { return c.active }

// PeerMaxStreams is how many streams the peer takes at a time; 2^31-1 unless it
// said otherwise.
func (c *Conn) PeerMaxStreams() uint32 { return c.peerMax }

// PeerAllowsConnect reports whether the peer takes extended CONNECT (RFC 8441).
func (c *Conn) PeerAllowsConnect() bool { return c.peerConn }

// GoneAway reports whether the peer sent GOAWAY.
func (c *Conn) GoneAway() bool { return c.goneAway }

// LastPeerStream is the highest stream that the peer opened and that was given
// to the handler: what the second GOAWAY of a drain names.
func (c *Conn) LastPeerStream() uint32 { return c.lastPeer }

// CanOpen reports whether OpenStream would succeed.
func (c *Conn) CanOpen() bool { return c.canOpen() == nil }

func (c *Conn) canOpen() error {
	switch {
	case c.err != nil || c.goneAway || c.goingAway || c.nextID > maxStreamID:
		return ErrGoAway
	case uint32(c.active) >= min(c.peerMax, c.o.MaxConcurrentStreams):
		return ErrNoStreams
	}
	return nil
}

// OpenStream sends a request's head on a new stream, whose response goes to
// resp and trailers, both empty.
func (c *Conn) OpenStream(h *header.Map, end bool, resp, trailers *header.Map, user any) (*Stream, error) {
	if err := c.canOpen(); err != nil {
		return nil, err
	}
	s := c.openStream(h, end, resp, trailers, user)
	c.depth++ // the stream has to survive this call
	c.writeHeaders(s, h, end)
	c.depth--
	return s, nil
}

// openStream is a new stream whose request's head has yet to be written.
func (c *Conn) openStream(h *header.Map, end bool, resp, trailers *header.Map, user any) *Stream {
	s := c.newStream(c.nextID)
	c.nextID += 2
	s.Headers, s.Trailers, s.User = resp, trailers, user
	switch m := h.Method(); m {
	case "HEAD":
		s.noBody = true
	case methodConnect:
		s.connect = true
	}
	s.sentEnd, s.endQueued = end, end
	return s
}

func (c *Conn) newStream(id uint32) *Stream {
	s := c.pool.get()
	s.ID, s.c = id, c
	s.sendWindow, s.recvWindow, s.length = c.peerWindow, c.initRecv, -1
	c.streams.put(s)
	c.current = s
	c.active++
	c.opened++
	return s
}

// stream is the open stream of an id, or nil: frames of one often follow each other.
func (c *Conn) stream(id uint32) *Stream {
	if s := c.current; s != nil && s.ID == id {
		return s
	}
	s := c.streams.get(id)
	c.current = s
	return s
}

// Ping sends a PING; OnPingAck has the answer.
func (c *Conn) Ping(data [8]byte) { c.ping(data, 0) }

func (c *Conn) ping(data [8]byte, flags byte) {
	if c.err == nil {
		c.commit(append(appendHead(c.begin(1, 1), 8, typePing, flags, 0), data[:]...))
	}
}

// Shutdown is the first step of a drain: it tells the peer to open no more
// streams, while those under way are still taken. After a round trip or the
// drain time GoAway(NoError, LastPeerStream(), "") follows.
func (c *Conn) Shutdown() {
	if c.err == nil && !c.goingAway {
		c.writeGoAway(NoError, maxStreamID, "")
	}
}

// GoAway tells the peer that streams above lastID are not and will not be
// processed: later ones are ignored. A client opens no more either.
func (c *Conn) GoAway(code ErrCode, lastID uint32, debug string) {
	if c.err != nil {
		return
	}
	if !c.goingAway || lastID < c.lastOurs {
		c.lastOurs = lastID
	}
	c.goingAway = true
	c.writeGoAway(code, c.lastOurs, debug)
}

func (c *Conn) writeGoAway(code ErrCode, lastID uint32, debug string) {
	out := appendHead(c.begin(1, 1), 8+len(debug), typeGoAway, 0, 0)
	out = binary.BigEndian.AppendUint32(out, lastID)
	out = binary.BigEndian.AppendUint32(out, uint32(code))
	c.Counts.GoAwaySent++
	c.commit(append(out, debug...))
}

// Close ends every stream by OnReset (remote) and OnClosed: call it when the
// connection is gone or will be. After a *ConnError give its Code and Details:
// if they are of one stream, the others get DetailCodec. Nothing is sent.
func (c *Conn) Close(code ErrCode, details string) {
	if c.err == nil {
		c.err = &ConnError{Code: code, Details: details, Reason: "the connection was closed"}
	}
	c.enter()
	c.collect(0)
	for _, id := range c.ids {
		if s := c.streams.get(id); s != nil {
			d := details
			if at := c.err.Stream; at != 0 && at != id {
				d = DetailCodec
			}
			c.resetBy(s, code, true, d)
		}
	}
	c.leave()
}

// collect puts the ids of the streams above one into c.ids, in order.
func (c *Conn) collect(above uint32) {
	c.ids = c.ids[:0]
	for _, s := range c.streams.slots {
		if s != nil && s.ID > above {
			c.ids = append(c.ids, s.ID)
		}
	}
	sortIDs(c.ids)
}

// fail ends the connection with a GOAWAY.
func (c *Conn) fail(code ErrCode, details, reason string) {
	c.failFlood(code, details, reason, FloodNone)
}

func (c *Conn) failFlood(code ErrCode, details, reason string, f Flood) {
	if c.tell(); c.err != nil {
		return
	}
	c.writeGoAway(code, c.lastPeer, "")
	if c.err == nil {
		c.err = &ConnError{Code: code, Details: details, Flood: f, Reason: reason}
	}
}

// enter and leave enclose what may call the handler: streams that close in
// between are not used again before.
func (c *Conn) enter() { c.depth++ }

func (c *Conn) leave() {
	c.depth--
	if c.depth == 0 && len(c.dead) > 0 {
		for i, s := range c.dead {
			c.pool.put(s)
			c.dead[i] = nil
		}
		c.dead = c.dead[:0]
	}
}

// begin is the output for another frame, after counting what is in it.
func (c *Conn) begin(frames, ctls int) []byte {
	if c.later {
		c.writeLater()
	}
	n := len(*c.out)
	if n < c.outLen { // its owner wrote some of it
		if n == 0 {
			c.frames, c.ctls, c.fresh = 0, 0, true
		} else {
			c.frames = int(int64(c.frames) * int64(n) / int64(c.outLen))
			c.ctls = int(int64(c.ctls) * int64(n) / int64(c.outLen))
		}
	}
	c.frames += frames
	c.ctls += ctls
	return *c.out
}

// commit is the end of what begin began.
func (c *Conn) commit(out []byte) {
	*c.out = out
	c.outLen = len(out)
	if c.frames > int(c.o.MaxOutboundFrames) || c.ctls > int(c.o.MaxOutboundControlFrames) {
		c.outboundFlood()
	}
}

// outboundFlood ends the connection, unless the owner could not have written
// yet: what one large read asks for is not judged by what the peer would take.
func (c *Conn) outboundFlood() {
	const slack = 4
	if c.err != nil || c.fresh && c.frames <= slack*int(c.o.MaxOutboundFrames) && c.ctls <= slack*int(c.o.MaxOutboundControlFrames) {
		return
	}
	f, what, details := FloodOutbound, "too many frames wait to be sent", DetailOutbound
	if c.ctls > int(c.o.MaxOutboundControlFrames) {
		f, what, details = FloodOutboundControl, "too many control frames wait to be sent", DetailControlFlood
	}
	c.err = &ConnError{Code: EnhanceYourCalm, Details: details, Flood: f, Reason: what}
	c.writeGoAway(EnhanceYourCalm, c.lastPeer, "")
}
