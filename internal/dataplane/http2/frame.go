package http2

import "encoding/binary"

const (
	frameHead     = 9
	minMaxFrame   = 1 << 14
	maxMaxFrame   = 1<<24 - 1
	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	maxStreamID   = 1<<31 - 1
	preface       = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
)

// Frame types.
const (
	typeData         = 0
	typeHeaders      = 1
	typePriority     = 2
	typeRST          = 3
	typeSettings     = 4
	typePushPromise  = 5
	typePing         = 6
	typeGoAway       = 7
	typeWindowUpdate = 8
	typeContinuation = 9
)

// Frame flags.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings.
const (
	setHeaderTableSize = 1
	setEnablePush      = 2
	setMaxStreams      = 3
	setInitialWindow   = 4
	setMaxFrameSize    = 5
	setEnableConnect   = 8
)

// head is the head of a frame.
type head struct {
	length int
	typ    byte
	flags  byte
	id     uint32
}

func parseHead(b []byte) head {
	v := binary.BigEndian.Uint64(b)
	return head{int(v >> 40), byte(v >> 32), byte(v >> 24), uint32(v<<8|uint64(b[8])) & maxStreamID}
}

func appendHead(dst []byte, length int, typ, flags byte, id uint32) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(length)<<40|uint64(typ)<<32|uint64(flags)<<24|uint64(id>>8))
	return append(dst, byte(id))
}

func putLength(b []byte, length int) {
	b[0], b[1], b[2] = byte(length>>16), byte(length>>8), byte(length)
}

func appendSetting(dst []byte, id uint16, v uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(dst, id), v)
}
