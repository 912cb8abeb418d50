// Command source is the management server of the suite "changes": delta ADS with
// resources that are encoded before they are needed, so that what it costs to make
// changes is not measured as what it costs to apply them.
//
// It takes commands, a line each, from its input and answers each with a line:
//
//	prepare N   encodes the next N changes; "ready"
//	begin N     makes N changes a second from now on; "begun"
//	end         makes no more; the number of changes so far, or "error: ..." if the
//	            proxy has refused one or there were too few prepared
//
// It ends with its input.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// gcPercent keeps the collector out of the way: next to no memory is used twice.
const gcPercent = 1000

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "source:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(gcPercent)
	var listen netip.AddrPort
	w := world{}
	fs := flag.NewFlagSet("source", flag.ContinueOnError)
	fs.TextVar(&listen, "listen", netip.AddrPort{}, "`address` to serve on")
	fs.Func("listeners", "comma-separated `addresses` of the proxy's listeners", addresses(&w.listeners))
	fs.Func("upstreams", "comma-separated `addresses` of the two upstreams", addresses(&w.upstreams))
	if err := fs.Parse(args); err != nil {
		return err
	}
	if len(w.listeners) == 0 || len(w.upstreams) != 2 {
		return errors.New("-listeners and two -upstreams are needed")
	}
	s := newServer()
	if err := w.first(s); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen.String())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- s.serve(ctx, l) }()
	err = (&driver{world: &w, server: s}).obey(in, out)
	cancel()
	return errors.Join(err, <-served)
}

func addresses(to *[]netip.AddrPort) func(string) error {
	return func(s string) error {
		for f := range strings.SplitSeq(s, ",") {
			a, err := netip.ParseAddrPort(f)
			if err != nil {
				return err
			}
			*to = append(*to, a)
		}
		return nil
	}
}

// driver makes changes as it is told.
type driver struct {
	*world
	server *server
	ready  []change
	made   int // so far
	stop   chan struct{}
	ended  chan error
}

func (d *driver) obey(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := d.command(lines.Text())
		if err != nil {
			answer = "error: " + err.Error()
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	if d.stop != nil {
		_, _ = d.command("end")
	}
	return lines.Err()
}

func (d *driver) command(line string) (answer string, err error) {
	verb, n := "", 0
	if _, err := fmt.Sscan(line, &verb, &n); err != nil && verb != "end" {
		return "", fmt.Errorf("%q: it is prepare N, begin N or end", line)
	}
	switch {
	case verb == "prepare" && d.stop == nil:
		d.ready = d.ready[:0]
		for i := range n {
			c, err := d.change(d.made + i + 1)
			if err != nil {
				return "", err
			}
			d.ready = append(d.ready, c)
		}
		return "ready", nil
	case verb == "begin" && d.stop == nil && n > 0:
		d.stop, d.ended = make(chan struct{}), make(chan error, 1)
		go func() { d.ended <- d.keepChanging(time.Second / time.Duration(n)) }()
		return "begun", nil
	case verb == "end" && d.stop != nil:
		close(d.stop)
		err := <-d.ended
		d.stop = nil
		return fmt.Sprint(d.made), err
	}
	return "", fmt.Errorf("%q: not now", line)
}

// keepChanging makes changes until it is stopped.
func (d *driver) keepChanging(every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-d.stop:
			return d.server.refusal()
		case <-tick.C:
		}
		if i == len(d.ready) {
			<-d.stop
			return fmt.Errorf("only %d changes were prepared", i)
		}
		if err := d.server.apply(d.ready[i]); err != nil {
			<-d.stop
			return err
		}
		d.made++
	}
}
