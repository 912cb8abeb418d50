package proxy_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inNamespace runs the test again in a network of its own, in which it may redirect
// what it wants; true if this is that run.
func inNamespace(t *testing.T) bool {
	t.Helper()
	const mark = "XEBEC_TEST_NAMESPACE"
	if os.Getenv(mark) != "" {
		return true
	}
	for _, tool := range []string{"ip", "iptables", "ip6tables"} {
		if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
			t.Skipf("it takes root and %s to redirect connections", tool)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v") //nolint:gosec // this test
	cmd.Env = append(os.Environ(), mark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("in a network of its own: %v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
	return false
}

// redirecting lets the system redirect what goes to 10.9.1.0/24 and fd09::/64 to port
// 15001, and take connections to all of 10.9.0.0/16.
func redirecting(t *testing.T) {
	t.Helper()
	for _, cmd := range [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "route", "add", "local", "10.9.0.0/16", "dev", "lo"},
		{"ip", "-6", "route", "add", "local", "fd09::/64", "dev", "lo"},
		{"iptables", "-t", "nat", "-A", "OUTPUT", "-d", "10.9.1.0/24", "-p", "tcp", "-j", "REDIRECT", "--to-ports", "15001"},
		{"ip6tables", "-t", "nat", "-A", "OUTPUT", "-d", "fd09::/64", "-p", "tcp", "-j", "REDIRECT", "--to-ports", "15001"},
	} {
		if out, err := exec.CommandContext(t.Context(), cmd[0], cmd[1:]...).CombinedOutput(); err != nil { //nolint:gosec // as above
			t.Skipf("this system cannot redirect: %v: %s", err, out)
		}
	}
}

// answers checks what is answered at addresses.
func answers(t *testing.T, want [][2]string) {
	t.Helper()
	for _, w := range want {
		c, err := net.DialTimeout("tcp", w[0], 5*time.Second)
		if err != nil {
			t.Errorf("%s: %v", w[0], err)
			continue
		}
		ends(t, c, w[1])
		_ = c.Close()
	}
}

// TestHandOffOfRedirected lets the system redirect connections, and deliver those of
// other machines' addresses to a transparent socket. Partly proves LM-12.
func TestHandOffOfRedirected(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	redirecting(t)
	chain := func(text string) string { return "filter_chains: [{filters: [" + canned(text) + "]}]" }
	const any4 = "{socket_address: {address: 0.0.0.0, port_value: "
	r := start(t, bootstrapOf(
		listenAt("catch", any4+"15001}}", chain("catch"), "use_original_dst: true",
			"additional_addresses: [{address: {socket_address: {address: '::', port_value: 15001}}}]")+
			listenAt("transparent", any4+"9000}}", chain("transparent"), "use_original_dst: true", "transparent: true")+
			unbound("exact", "10.9.1.1", 80, chain("exact"))+
			unbound("all", "0.0.0.0", 80, chain("all"))+
			unbound("six", "fd09::1", 80, chain("six"))+
			unbound("tproxy", "10.9.2.1", 9000, chain("tproxy")), ""))
	defer r.stop()
	answers(t, [][2]string{
		{"10.9.1.1:80", "exact"},
		{"10.9.1.2:80", "all"},
		{"10.9.1.1:81", "catch"},
		{"127.0.0.1:15001", "catch"},
		{"[fd09::1]:80", "six"},
		{"[fd09::2]:80", "catch"},
		{"10.9.2.1:9000", "tproxy"},
		{"10.9.2.2:9000", "transparent"},
	})
}

// Partly proves LF-11, since there are no internal listeners: where a redirected connection
// was going is what filter chains are chosen by, and what is logged; the listener keeps the
// connection though another has the address.
func TestOriginalDestination(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	redirecting(t)
	var logs syncBuffer
	const any4 = "{socket_address: {address: 0.0.0.0, port_value: "
	match := func(match, text string) string {
		return "{filter_chain_match: {" + match + "}, filters: [" + canned(text) + "]}"
	}
	chains := "filter_chains: [" + match("prefix_ranges: [{address_prefix: 10.9.1.1, prefix_len: 32}]", "first") + ", " +
		match("destination_port: 81", "port") + ", " + match("prefix_ranges: [{address_prefix: 'fd09::', prefix_len: 64}]", "six") + ", " + match("", "other") + "]"
	r := start(t, bootstrapOf(
		listenAt("catch", any4+"15001}}", chains, `listener_filters: [{name: o, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.original_dst.v3.OriginalDst}}]`,
			"additional_addresses: [{address: {socket_address: {address: '::', port_value: 15001}}}]", logTo("to", "%DOWNSTREAM_LOCAL_ADDRESS%"))+
			unbound("elsewhere", "10.9.1.1", 80, "filter_chains: [{filters: ["+canned("elsewhere")+"]}]"), ""), logged(&logs))
	answers(t, [][2]string{
		{"10.9.1.1:80", "first"}, {"10.9.1.2:81", "port"}, {"10.9.1.2:82", "other"}, {"[fd09::2]:80", "six"}, {"127.0.0.1:15001", "other"},
	})
	r.finish(t)
	got := strings.Split(strings.TrimSpace(logs.String()), "\n")
	slices.Sort(got)
	want := []string{"to 10.9.1.1:80", "to 10.9.1.2:81", "to 10.9.1.2:82", "to 127.0.0.1:15001", "to [fd09::2]:80"}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}
