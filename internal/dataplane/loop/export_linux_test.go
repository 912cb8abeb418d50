package loop

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/filter"
)

func dup(fd int) (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) }

func mustAddr(s string) filter.Address { return filter.IPAddress(netip.MustParseAddrPort(s)) }

// conns are the loop's open connections.
func (l *Loop) conns() (list []*Conn) {
	switch p := l.poll.(type) {
	case *epoll:
		for _, s := range p.socks {
			if s != nil {
				list = append(list, s.conn)
			}
		}
	case *portable:
		for s := range p.socks {
			list = append(list, s.conn)
		}
	}
	return list
}
