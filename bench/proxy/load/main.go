// Command load drives load through a proxy and measures what it costs the
// proxy. It prints one line of name=value.
//
//	load drive       requests by HTTP/1.1, HTTP/2 or gRPC, answering as the upstream itself
//	load upstream    only answers as the upstream
//	load handshakes  a new TLS connection for every request
//	load idle        many connections that do nothing after one request
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/engine"
	"github.com/xebec-proxy/xebec/bench/proxy/meter"
	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

// options is the command line.
type options struct {
	engine.Options
	protocol   string
	tls        bool
	warm, time time.Duration
	pids       []int
	cores      []int
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	commands := map[string]func(context.Context, *options) (raw.Values, error){
		"drive": drive, "upstream": upstream, "handshakes": handshakes, "idle": idle,
	}
	if len(args) == 0 || commands[args[0]] == nil {
		return errors.New("usage: load drive|upstream|handshakes|idle [flags]")
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	v, err := commands[args[0]](ctx, o)
	if err != nil || len(v) == 0 {
		return err
	}
	_, err = fmt.Fprintln(out, v)
	return err
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("load "+args[0], flag.ContinueOnError)
	fs.TextVar(&o.Target, "target", netip.AddrPort{}, "the proxy's `address`")
	fs.StringVar(&o.protocol, "protocol", "h1", "h1, h2 or grpc")
	fs.BoolVar(&o.tls, "tls", false, "idle: use TLS")
	fs.IntVar(&o.Connections, "connections", 64, "`number` of connections")
	fs.IntVar(&o.Streams, "streams", 32, "`number` of requests at once on a connection (h2, grpc)")
	fs.Float64Var(&o.Rate, "rate", 0, "begin so many `requests` a second at random times; 0: each when another ends")
	fs.BoolVar(&o.Sleep, "sleep", false, "with a rate: sleep until a request is due, instead of keeping the core busy")
	fs.IntVar(&o.RequestBody, "request-body", 0, "`bytes` of a request's body, of the message with grpc")
	fs.IntVar(&o.ResponseBody, "response-body", 1024, "`bytes` of a response's body, of the message with grpc")
	fs.DurationVar(&o.warm, "warm", 300*time.Millisecond, "`time` before the measurement")
	fs.DurationVar(&o.time, "time", 3*time.Second, "`time` of the measurement; idle: of rest before it")
	fs.Func("upstream-h1", "comma-separated `addresses` to answer on by HTTP/1.1", list(&o.Upstream1, netip.ParseAddrPort))
	fs.Func("upstream-h2", "comma-separated `addresses` to answer on by HTTP/2", list(&o.Upstream2, netip.ParseAddrPort))
	fs.Func("pids", "comma-separated `processes` of the proxy", list(&o.pids, strconv.Atoi))
	fs.Func("cores", "comma-separated `cores` that proxy and load have for themselves", list(&o.cores, strconv.Atoi))
	if err := fs.Parse(args[1:]); err != nil {
		return nil, err
	}
	switch o.protocol {
	case "h1":
	case "h2":
		o.HTTP2 = true
	case "grpc":
		o.HTTP2, o.GRPC = true, true
	default:
		return nil, fmt.Errorf("-protocol %s: it is h1, h2 or grpc", o.protocol)
	}
	return o, nil
}

// list adds comma-separated values to a slice.
func list[T any](to *[]T, parse func(string) (T, error)) func(string) error {
	return func(s string) error {
		for f := range strings.SplitSeq(s, ",") {
			v, err := parse(f)
			if err != nil {
				return err
			}
			*to = append(*to, v)
		}
		return nil
	}
}

// span begins a measurement of the proxy's processes, with this one as load.
func (o *options) span() (*meter.Span, error) {
	return meter.Begin(o.pids, []int{os.Getpid()}, o.cores)
}

// cost are the values that every measurement of n requests has in common.
func cost(u meter.Used, n, wrong int64) (raw.Values, error) {
	if n == 0 {
		return nil, fmt.Errorf("no request was answered in %s", u.Time)
	}
	v := raw.Values{
		"n": float64(n), "wrong": float64(wrong), "other": round(u.Other, 3),
		"rps": round(float64(n)/u.Time.Seconds(), 0), "busy": round(u.Proxy.Seconds()/u.Time.Seconds(), 3),
	}
	if u.Proxy > 0 {
		v["percore"] = round(float64(n)/u.Proxy.Seconds(), 0)
		v["cpu_us"] = round(u.Proxy.Seconds()*1e6/float64(n), 3)
	}
	return v, nil
}
