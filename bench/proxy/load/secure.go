package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

const (
	request      = "GET /api/v1/items HTTP/1.1\r\nHost: bench.example\r\n\r\n"
	closeRequest = "GET /api/v1/items HTTP/1.1\r\nHost: bench.example\r\nConnection: close\r\n\r\n"
)

// clientTLS is what every proxy is asked for: TLS 1.3 with X25519, no session
// from before.
func clientTLS() *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // the client's work is not what is measured
		ServerName:         "bench.example", NextProtos: []string{"http/1.1"},
		CurvePreferences: []tls.CurveID{tls.X25519}, MinVersion: tls.VersionTLS13,
	}
}

// counts are what the goroutines of handshakes have done.
type counts struct{ done, wrong atomic.Int64 }

// handshakes opens as many TLS connections as it can, one after the other on
// each of so many goroutines, with one request each.
func handshakes(ctx context.Context, o *options) (raw.Values, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var n counts
	var all sync.WaitGroup
	for range o.Connections {
		all.Go(func() { n.open(ctx, o) })
	}
	if err := rest(ctx, o.warm); err != nil {
		return nil, err
	}
	span, err := o.span()
	if err != nil {
		return nil, err
	}
	done, wrong := n.done.Load(), n.wrong.Load()
	if err := rest(ctx, o.time); err != nil {
		return nil, err
	}
	done, wrong = n.done.Load()-done, n.wrong.Load()-wrong
	used, err := span.End(0)
	cancel()
	all.Wait()
	if err != nil {
		return nil, err
	}
	return cost(used, done, wrong)
}

func (n *counts) open(ctx context.Context, o *options) {
	config := clientTLS()
	for ctx.Err() == nil {
		err := once(ctx, o, config)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			n.wrong.Add(1)
		}
		n.done.Add(1)
	}
}

// once makes one connection, sends one request and reads to the end.
func once(ctx context.Context, o *options, config *tls.Config) error {
	var d net.Dialer
	plain, err := d.DialContext(ctx, "tcp", o.Target.String())
	if err != nil {
		return err
	}
	defer plain.Close()
	c := tls.Client(plain, config)
	if _, err := io.WriteString(c, closeRequest); err != nil {
		return err
	}
	b, err := io.ReadAll(c)
	if len(b) < o.ResponseBody { // some proxies close without saying so in TLS
		return errors.Join(errors.New("no whole response"), err)
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return fmt.Errorf("measuring: %w", ctx.Err())
	case <-t.C:
		return nil
	}
}
