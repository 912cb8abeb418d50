package main

import (
	"strings"
	"time"
)

// tool is what drives a suite's load.
type tool int

const (
	byEngine     tool = iota // load drive
	byWrk                    // wrk, with load upstream behind
	byHandshakes             // load handshakes
	byIdle                   // load idle, on a proxy that was just started
)

// suite is one way of loading the proxies.
type suite struct {
	name string
	tool tool
	// listen is which of a proxy's listeners is driven.
	listen func(addresses) string
	// args are the tool's own: those of load's command, or of wrk.
	args []string
	rows []row
}

// row is a row of the table: a value that a suite measures.
type row struct {
	title, value, unit string
	goals              []goal
}

// goal is what Xebec sets itself in a row.
type goal struct {
	// peer is whose value Xebec's is divided by; none if empty.
	peer string
	// least is what the quotient must reach, most what it must not exceed; the
	// other is 0.
	least, most float64
}

const (
	perCore = "percore"
	idleKB  = "idle_kb"
	p50     = "p50"
	p99     = "p99"
)

func least(x float64, peer string) goal { return goal{peer: peer, least: x} }

func overH1(a addresses) string    { return a.H1.String() }
func overH2(a addresses) string    { return a.H2.String() }
func overGRPC(a addresses) string  { return a.GRPC.String() }
func overECDSA(a addresses) string { return a.ECDSA.String() }
func overRSA(a addresses) string   { return a.RSA.String() }

// speed is the row of most suites.
func speed(title string, goals ...goal) []row { return []row{{title, perCore, "1/s", goals}} }

// suites are what all proxies go through, in the table's order.
func suites() []suite { return append(append(http1Suites(), http2Suites()...), tlsSuites()...) }

func http1Suites() []suite {
	c64 := []string{"-connections", "64"}
	return []suite{
		{
			name: "h1", listen: overH1, args: c64,
			rows: speed("HTTP/1 GET 1 KB, 64 connections", least(2.8, envoy), least(1.15, nginx), least(1.1, haproxy)),
		},
		{
			name: "h1-256", listen: overH1, args: []string{"-connections", "256"},
			rows: speed("the same, 256 connections", least(3.5, envoy)),
		},
		{
			name: "h1-rate", listen: overH1, args: append([]string{"-rate", "10000"}, c64...),
			rows: []row{
				{title: "p50 at 10 000 requests/s", value: p50, unit: "µs"},
				{"p99 at 10 000 requests/s", p99, "µs", []goal{{peer: haproxy, most: 1}}},
			},
		},
		{
			name: "post-16k", listen: overH1, args: append([]string{"-request-body", "16384"}, c64...),
			rows: speed("HTTP/1 POST 16 KB, 64 connections", least(2.5, envoy)),
		},
		{
			name: "get-64k", listen: overH1, args: []string{"-connections", "32", "-response-body", "65536"},
			rows: speed("HTTP/1 GET 64 KB, 32 connections", least(2.2, envoy)),
		},
		{
			name: "close", tool: byWrk, listen: overH1, args: []string{"-c64", "-H", "Connection: close"},
			rows: speed("HTTP/1, a new connection for every request", least(1.7, envoy)),
		},
	}
}

func http2Suites() []suite {
	grpc := func(connections, streams string) []string {
		return []string{
			"-protocol", "grpc", "-request-body", "64", "-response-body", "64",
			"-connections", connections, "-streams", streams,
		}
	}
	return []suite{
		{
			name: "h2", listen: overH2, args: []string{"-protocol", "h2", "-connections", "4", "-streams", "32"},
			rows: speed("HTTP/2 to HTTP/1, 4 connections × 32", least(4, envoy), least(1.3, haproxy)),
		},
		{
			name: "grpc", listen: overGRPC, args: grpc("4", "32"),
			rows: speed("gRPC, 4 connections × 32", least(8, envoy), least(4, haproxy)),
		},
		{
			name: "grpc-16x8", listen: overGRPC, args: grpc("16", "8"),
			rows: speed("gRPC, 16 connections × 8", least(8, envoy), least(4, haproxy)),
		},
	}
}

func tlsSuites() []suite {
	return []suite{
		{
			name: "tls", tool: byWrk, listen: overECDSA, args: []string{"-c64"},
			rows: speed("TLS 1.3, HTTP/1 GET 1 KB, 64 connections", least(3, envoy), least(1.2, haproxy)),
		},
		{
			name: "handshake-ecdsa", tool: byHandshakes, listen: overECDSA, args: []string{"-connections", "32"},
			rows: speed("TLS 1.3 handshakes, ECDSA P-256", least(1.1, envoy)),
		},
		{
			name: "handshake-rsa", tool: byHandshakes, listen: overRSA, args: []string{"-connections", "32"},
			rows: speed("TLS 1.3 handshakes, RSA 2048", least(.6, envoy)),
		},
		{
			name: "idle", tool: byIdle, listen: overH1,
			rows: []row{{"idle connection", idleKB, "KB", []goal{{most: 1}}}},
		},
		{
			name: "idle-tls", tool: byIdle, listen: overECDSA, args: []string{"-tls"},
			rows: []row{{"idle connection, TLS", idleKB, "KB", []goal{{most: 10}}}},
		},
	}
}

// setup is Xebec in one of the forms that are compared with each other.
type setup struct {
	name    string
	variant variant
	workers int
	both    bool // cores
}

// plainSetup is that of all suites but comparisons.
func plainSetup() setup { return setup{name: "plain", workers: 1} }

// comparison is Xebec against Xebec: what something costs.
type comparison struct {
	name, title string
	suite       suite // driven for each
	plain, with setup
	most        float64 // CPU time per request, of plain's; 0 for no goal
}

// modestRate is well below what one worker can do.
const modestRate = "10000"

func comparisons() []comparison {
	h1 := suites()[0]
	plain := plainSetup()
	one := setup{name: "one-worker", workers: 1, both: true}
	rate := suite{listen: overH1, args: []string{"-connections", "64", "-rate", modestRate}}
	return append(withoutHTTP(), []comparison{
		{
			name: "json-log", title: "a JSON access log of 21 fields, to a file", suite: h1,
			plain: plain, with: setup{name: "json-log", variant: variant{Log: true}, workers: 1},
		},
		{
			name: "hosts", title: "10 000 virtual hosts", suite: h1,
			plain: plain, with: setup{name: "hosts", variant: variant{Hosts: 10_000}, workers: 1},
		},
		{
			name: "routes", title: "5 000 routes before the one that matches", suite: h1,
			plain: plain, with: setup{name: "routes", variant: variant{Routes: 5_000}, workers: 1},
		},
		{
			name: "workers", title: "two workers instead of one, at 10 000 requests/s on both cores", suite: rate,
			plain: one, with: setup{name: "two-workers", workers: 2, both: true}, most: 1.15,
		},
	}...)
}

// withoutHTTP compares suites of HTTP/1 with what the same bytes cost when nobody reads
// them: what is left is nearly all the system's, and paid by any proxy.
func withoutHTTP() (out []comparison) {
	for _, s := range http1Suites() {
		if s.tool == byEngine && s.rows[0].value == perCore {
			out = append(out, comparison{
				name: "bytes-" + s.name, title: "no HTTP, but bytes as they come (tcp_proxy): " + s.rows[0].title, suite: s,
				plain: plainSetup(), with: setup{name: "bytes", variant: variant{Bytes: true}, workers: 1},
			})
		}
	}
	return out
}

// wrkSuites are the names of the suites that need wrk.
func wrkSuites() string {
	var names []string
	for _, s := range suites() {
		if s.tool == byWrk {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, ", ")
}

// pace is how long everything takes.
type pace struct {
	rounds      int
	time, warm  time.Duration
	connections int           // idle ones
	settle      time.Duration // before memory is read
	quiet       time.Duration // how long to wait for a quiet machine, at most
}
