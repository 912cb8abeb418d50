package healthcheck

import (
	"fmt"
	"net"
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// tcpConfig is a tcp_health_check.
type tcpConfig struct {
	send    []byte
	receive [][]byte
	proxy   bool // a PROXY header goes ahead
	version corev3.ProxyProtocolConfig_Version
}

func readTCP(t *corev3.HealthCheck_TcpHealthCheck) (*tcpConfig, error) {
	c := &tcpConfig{}
	var err error
	if t.GetSend() != nil {
		if c.send, err = payload("send", t.GetSend()); err != nil {
			return nil, err
		}
	}
	if c.receive, err = payloads("receive", t.GetReceive()); err != nil {
		return nil, err
	}
	if p := t.GetProxyProtocolConfig(); p != nil {
		if p.GetPassThroughTlvs() != nil || len(p.GetAddedTlvs()) > 0 {
			return nil, fmt.Errorf("proxy_protocol_config: pass_through_tlvs and added_tlvs have no place in a health check; remove them")
		}
		c.proxy, c.version = true, p.GetVersion()
	}
	return c, nil
}

// tcpWire is a connection of a TCP check.
type tcpWire struct {
	conf  *tcpConfig
	conn  net.Conn
	begun bool
	buf   [2 << 10]byte
}

// check implements wire.
func (w *tcpWire) check() (Result, bool) {
	if w.write() != nil {
		return Result{Verdict: NetworkFailed}, false
	}
	if len(w.conf.receive) == 0 {
		return Result{Verdict: Passed}, false // it was about the connection only
	}
	f := newFinder(w.conf.receive)
	for !f.done() {
		n, err := w.conn.Read(w.buf[:])
		f.add(w.buf[:n])
		if err != nil && !f.done() {
			return Result{Verdict: NetworkFailed}, false
		}
	}
	return Result{Verdict: Passed}, true
}

// write sends what is configured. The PROXY header stands at the beginning of the
// connection only.
func (w *tcpWire) write() error {
	var out []byte
	if w.conf.proxy && !w.begun {
		out = w.conf.proxyHeader(w.conn)
	}
	w.begun = true
	if out = append(out, w.conf.send...); len(out) == 0 {
		return nil
	}
	_, err := w.conn.Write(out)
	return err //nolint:wrapcheck // nobody sees it
}

// idle implements wire: what comes unasked is nobody's.
func (w *tcpWire) idle() error {
	for {
		if _, err := w.conn.Read(w.buf[:]); err != nil {
			return err //nolint:wrapcheck // its caller looks whether it was the time
		}
	}
}

// lost implements wire: a connection that was to be kept says something of its host.
func (w *tcpWire) lost() bool { return true }

// proxyHeader is a PROXY header: of version 1 with the addresses of the connection,
// of version 2 LOCAL and without any.
func (c *tcpConfig) proxyHeader(conn net.Conn) []byte {
	if c.version == corev3.ProxyProtocolConfig_V2 {
		return []byte("\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00")
	}
	return inspect.AppendProxyHeader(nil, 1, filter.Address{IP: addrPort(conn.LocalAddr())}, filter.Address{IP: addrPort(conn.RemoteAddr())})
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
