//go:build interop

package differential

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// announced is a connection to an upstream server behind the PROXY header that it
// begins with.
type announced struct {
	net.Conn
	r      *bufio.Reader
	header string // a line of version 1, or all bytes of version 2 in hexadecimal
}

func newAnnounced(conn net.Conn) *announced {
	a := &announced{Conn: conn, r: bufio.NewReaderSize(conn, 1<<17)}
	_ = conn.SetReadDeadline(time.Now().Add(5 * time.Second))
	a.header = a.read()
	_ = conn.SetReadDeadline(time.Time{})
	return a
}

func (a *announced) read() string {
	first, err := a.r.Peek(6)
	switch {
	case err != nil:
		return "nothing"
	case string(first) == "PROXY ":
		line, _ := a.r.ReadString('\n')
		return strings.TrimSpace(line)
	}
	head, err := a.r.Peek(16)
	if err != nil || string(head[:12]) != "\r\n\r\n\x00\r\nQUIT\n" {
		return fmt.Sprintf("%q", head)
	}
	all := make([]byte, 16+int(binary.BigEndian.Uint16(head[14:])))
	if _, err := io.ReadFull(a.r, all); err != nil {
		return "a part of a header"
	}
	if len(all) > 300 {
		return fmt.Sprintf("%x… (%d bytes)", all[:100], len(all))
	}
	return hex.EncodeToString(all)
}

func (a *announced) Read(b []byte) (int, error) { return a.r.Read(b) }
