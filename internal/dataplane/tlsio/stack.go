package tlsio

// handshakeStack is what a handshake's stack grows to: crypto/tls needs more
// than 8 KB on either side.
const handshakeStack = 16 << 10

// growStack makes the calling goroutine's stack large enough for a handshake
// at once, while there is nothing on it. A goroutine begins with 2 KB, and would
// copy its stack, deep in crypto/tls, at each doubling: that was 5 % of the
// processor time of full handshakes with ECDSA.
//
//go:noinline
func growStack(at int) byte {
	var room [handshakeStack - 5<<10]byte // the frame; the stack's size is the power of two above
	room[at&0xff] = 1
	return room[(at+1)&0xff]
}
