package proxy_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
	"github.com/xebec-proxy/xebec/proxy"
)

// descriptors are the sockets of this process that a test accepts.
func descriptors(t *testing.T, accept func(fd int) bool) []int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var found []int
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && accept(fd) {
			found = append(found, fd)
		}
	}
	return found
}

// listening are the listening sockets on an address.
func listening(t *testing.T, address string) []int {
	t.Helper()
	want := netip.MustParseAddrPort(address)
	return descriptors(t, func(fd int) bool {
		on, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
		return err == nil && on == 1 && local(fd) == want
	})
}

// bound are the sockets on an address, listening or not yet.
func bound(t *testing.T, address string) []int {
	t.Helper()
	want := netip.MustParseAddrPort(address)
	return descriptors(t, func(fd int) bool { return local(fd) == want })
}

// accepted is the proxy's end of a client's connection.
func accepted(t *testing.T, c net.Conn) int {
	t.Helper()
	want := netip.MustParseAddrPort(c.LocalAddr().String())
	list := descriptors(t, func(fd int) bool {
		sa, err := unix.Getpeername(fd)
		return err == nil && addrPort(sa) == want
	})
	if len(list) != 1 {
		t.Fatalf("%d sockets", len(list))
	}
	return list[0]
}

func local(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPort(sa)
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)) //nolint:gosec // a port
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)) //nolint:gosec // a port
	}
	return netip.AddrPort{}
}

// cookie identifies a socket behind its descriptors.
func cookie(t *testing.T, fd int) uint64 {
	t.Helper()
	v, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Proves LM-02, with TestListenersComeAndGo, where an update may not change it: each
// worker has a socket of its own, or all share one.
func TestSocketPerWorker(t *testing.T) {
	r := start(t, bootstrapOf(listen("own", echoFilter)+listen("shared", echoFilter, "enable_reuse_port: false"), ""), workers(2))
	for name, want := range map[string]int{"own": 2, "shared": 1} {
		distinct := map[uint64]bool{}
		for _, fd := range listening(t, r.at(name)) {
			distinct[cookie(t, fd)] = true
			reuse, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT)
			if err != nil || reuse != want-1 {
				t.Errorf("%s: SO_REUSEPORT is %d, %v", name, reuse, err)
			}
		}
		if len(distinct) != want {
			t.Errorf("%s: %d sockets, want %d", name, len(distinct), want)
		}
		for range 20 {
			c := r.dial(t, name)
			say(t, c, "x")
			hear(t, c, "x")
		}
	}
	a, b := r.number(t, "listener.own.worker_0.downstream_cx_total"), r.number(t, "listener.own.worker_1.downstream_cx_total")
	if a == 0 || b == 0 || a+b != 20 {
		t.Errorf("the workers have %d and %d connections", a, b)
	}
}

// Partly proves LM-08: the listener whose address is taken is named, Run ends,
// and nothing stays bound: neither listeners before it nor the admin's.
func TestAddressInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free := dead(t)
	at := func(a string) string {
		host, port, _ := net.SplitHostPort(a)
		return "{socket_address: {address: " + host + ", port_value: " + port + "}}"
	}
	chain := "filter_chains: [{filters: [" + echoFilter + "]}]"
	loaded, o, _ := load(t, bootstrapOf(listenAt("first", at(free), chain)+listenAt("second", at(taken.Addr().String()), chain), ""), workers(2))
	p, err := proxy.New(loaded.Bootstrap, o)
	if err != nil {
		t.Fatal(err)
	}
	err = p.Run(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cannot bind '"+taken.Addr().String()+"': Address already in use") || !strings.Contains(err.Error(), "'second'") {
		t.Errorf("%v", err)
	}
	if fds := listening(t, free); len(fds) > 0 {
		t.Errorf("%d sockets are left", len(fds))
	}
	l, err := net.Listen("tcp", free)
	if err != nil {
		t.Fatalf("the first listener's address is not free: %v", err)
	}
	_ = l.Close()
}

// never is a resolver that has no answer.
type never struct{ asked chan struct{} }

// LookupNetIP implements cluster.Resolver.
func (n *never) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	n.asked <- struct{}{}
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// Proves that a proxy told to end before it serves leaves nothing bound.
func TestEndBeforeServing(t *testing.T) {
	free := dead(t)
	host, port, _ := net.SplitHostPort(free)
	n := &never{asked: make(chan struct{}, 10)}
	b := bootstrapOf(listenAt("l", "{socket_address: {address: "+host+", port_value: "+port+"}}", "filter_chains: [{filters: ["+echoFilter+"]}]"),
		"  - {name: c, type: STRICT_DNS, load_assignment: {cluster_name: c, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: never.example, port_value: 1}}}}]}]}}\n")
	r := begin(t, b, func(_ *proxyrun.Flags, o *proxy.Options) { o.Resolver = n })
	<-n.asked
	if len(bound(t, free)) == 0 || len(listening(t, free)) > 0 {
		t.Error("the socket is not bound, or accepts, while clusters warm up")
	}
	r.finish(t)
	if fds := bound(t, free); len(fds) > 0 {
		t.Errorf("%d sockets are left", len(fds))
	}
}

// Proves LM-10 with TestAddressFaults, partly proves LM-11: each kind of address accepts, for clients and
// for hosts.
func TestAddresses(t *testing.T) {
	dir := t.TempDir()
	path, back := filepath.Join(dir, "in"), filepath.Join(dir, "back")
	abstract := "@xebec-test-" + strconv.Itoa(os.Getpid())
	serveTCP(t, "unix", back, greets("hello"))
	chain := "filter_chains: [{filters: [" + tcpTo("p", "cluster: up") + "]}]"
	socket := func(ip, more string) string {
		return "{socket_address: {address: '" + ip + "', port_value: 0" + more + "}}"
	}
	r := start(t, bootstrapOf(
		listenAt("four", socket("127.0.0.1", ""), chain, "additional_addresses: [{address: "+socket("127.0.0.2", "")+"}, {address: "+socket("::1", "")+"}]")+
			listenAt("dual", socket("::", ", ipv4_compat: true"), chain)+
			listenAt("six", socket("::", ""), chain)+
			listenAt("pipe", "{pipe: {path: '"+path+"', mode: 0640}}", chain)+
			listenAt("abstract", "{pipe: {path: '"+abstract+"'}}", chain),
		upstreamAt("up", []string{back})), workers(2))
	reach := func(network, address string) {
		t.Helper()
		c, err := net.Dial(network, address)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		hear(t, c, "hello")
	}
	addresses := r.Listeners()
	if len(addresses["four"]) != 3 {
		t.Fatalf("%q", addresses["four"])
	}
	for _, a := range addresses["four"] {
		reach("tcp", a)
	}
	_, port, _ := net.SplitHostPort(addresses["dual"][0])
	reach("tcp4", "127.0.0.1:"+port)
	reach("tcp6", "[::1]:"+port)
	_, port, _ = net.SplitHostPort(addresses["six"][0])
	reach("tcp6", "[::1]:"+port)
	if c, err := net.Dial("tcp4", "127.0.0.1:"+port); err == nil {
		_ = c.Close()
		t.Error("an IPv6 address without ipv4_compat takes IPv4")
	}
	reach("unix", path)
	reach("unix", abstract)
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the socket has mode %v, %v", st.Mode(), err)
	}
}

// Partly proves LM-10: what addresses cannot be.
func TestAddressFaults(t *testing.T) {
	for address, want := range map[string]string{
		"{socket_address: {address: 127.0.0.1, named_port: http}}":                "named_port",
		"{socket_address: {address: nowhere, port_value: 1}}":                     "malformed IP address: nowhere",
		"{socket_address: {address: 127.0.0.1, port_value: 1, protocol: UDP}}":    "protocol",
		"{pipe: {path: /tmp/" + strings.Repeat("x", 110) + "}}":                   "exceeds maximum UNIX domain socket path size",
		"{socket_address: {address: 127.0.0.1, port_value: 0, resolver_name: x}}": "resolver_name",
	} {
		_, err := proxy.New(unchecked(t, bootstrapOf(listenAt("l", address, "filter_chains: [{filters: ["+echoFilter+"]}]"), "")), proxy.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// Proves LM-17 and with TestEmptyChainCloses LM-15: the options are those of the
// sockets, and connections do not wait to fill packets.
func TestSocketOptions(t *testing.T) {
	fields := []string{
		"freebind: true", "tcp_fast_open_queue_length: 5", "tcp_backlog_size: 7", "tcp_keepalive: {keepalive_probes: 3, keepalive_time: 40, keepalive_interval: 5}",
		"socket_options: [{level: 1, name: 8, int_value: 123456, state: STATE_PREBIND}, {level: 6, name: 9, int_value: 3, state: STATE_LISTENING}, {level: 6, name: 13, buf_value: cmVubw==, state: STATE_BOUND}]",
	}
	transparent := os.Getuid() == 0 && mayBeTransparent()
	if transparent {
		fields = append(fields, "transparent: true")
	}
	fields = append(fields, "additional_addresses: [{address: {socket_address: {address: 127.0.0.1, port_value: 0}}, socket_options: {socket_options: []}, tcp_keepalive: {keepalive_probes: 9}}]")
	r := start(t, bootstrapOf(listen("l", echoFilter, fields...), ""))
	option := func(fd, level, name int) int {
		t.Helper()
		v, err := unix.GetsockoptInt(fd, level, name)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	fd := listening(t, r.Listeners()["l"][0])[0]
	more := listening(t, r.Listeners()["l"][1])[0]
	c := r.dial(t, "l")
	say(t, c, "x")
	hear(t, c, "x")
	conn := accepted(t, c)
	for _, o := range []struct {
		what                  string
		fd, level, name, want int
	}{
		{"freebind", fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1},
		{"fast open", fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 5},
		{"SO_RCVBUF", fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 2 * 123456},
		{"TCP_DEFER_ACCEPT", fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 3},
		{"keepalive", conn, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"probes", conn, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 3},
		{"time", conn, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 40},
		{"interval", conn, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 5},
		{"no delay", conn, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{"probes of the other address", more, unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
		{"freebind of the other address", more, unix.IPPROTO_IP, unix.IP_FREEBIND, 1},
	} {
		if got := option(o.fd, o.level, o.name); got != o.want && (o.what != "TCP_DEFER_ACCEPT" || got == 0) {
			t.Errorf("%s is %d, want %d", o.what, got, o.want)
		}
	}
	if transparent && option(fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT) != 1 {
		t.Error("not transparent")
	}
	if option(more, unix.SOL_SOCKET, unix.SO_RCVBUF) == 2*123456 {
		t.Error("an address with socket options of its own has the listener's")
	}
	if v, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil || v != "reno" {
		t.Errorf("congestion control %q, %v", v, err)
	}
	if n := backlog(t, r.at("l")); n != 7 {
		t.Errorf("the backlog is %d", n)
	}
}

// mayBeTransparent reports whether the system lets the test do it.
func mayBeTransparent() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TRANSPARENT, 1) == nil
}

// backlog is how many connections may wait at an address.
func backlog(t *testing.T, address string) int {
	t.Helper()
	fds := listening(t, address)
	info, err := unix.GetsockoptTCPInfo(fds[0], unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Sacked) // tcpi_sacked is the backlog of a listening socket
}
