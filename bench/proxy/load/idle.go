package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/xebec-proxy/xebec/bench/proxy/meter"
	"github.com/xebec-proxy/xebec/bench/proxy/raw"
)

const (
	// opening is how many connections are opened at a time.
	opening = 64
	// first is how many are opened before the measurement, so that what a proxy
	// sets aside once is not counted.
	first = 4 * opening
)

// idle opens connections, sends one request on each, keeps them open, and says
// by how much the proxy's memory grew.
func idle(ctx context.Context, o *options) (raw.Values, error) {
	warm, err := openAll(ctx, o, first)
	defer closeAll(warm)
	if err != nil {
		return nil, fmt.Errorf("the first connections: %w", err)
	}
	if err := rest(ctx, o.warm); err != nil {
		return nil, err
	}
	before, err := meter.Resident(o.pids)
	if err != nil {
		return nil, err
	}
	conns, wrong := openAll(ctx, o, o.Connections)
	defer closeAll(conns)
	if len(conns) == 0 {
		return nil, fmt.Errorf("idle connections: %w", wrong)
	}
	if err := rest(ctx, o.time); err != nil {
		return nil, err
	}
	after, err := meter.Resident(o.pids)
	if err != nil {
		return nil, err
	}
	return raw.Values{
		"n": float64(o.Connections), "wrong": float64(o.Connections - len(conns)),
		"rss_before_kb": float64(before >> 10), "rss_after_kb": float64(after >> 10),
		"idle_kb": round(float64(after-before)/1024/float64(len(conns)), 3),
	}, nil
}

func closeAll(conns []net.Conn) {
	for _, c := range conns {
		_ = c.Close()
	}
}

// openAll opens n connections. It returns those that answered, and why the
// others did not.
func openAll(ctx context.Context, o *options, n int) ([]net.Conn, error) {
	var (
		mu    sync.Mutex
		conns []net.Conn
		errs  error
		all   sync.WaitGroup
	)
	slots := make(chan struct{}, opening)
	for range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			c, err := openOne(ctx, o)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				conns = append(conns, c)
			} else if errs == nil {
				errs = err // the others will be alike
			}
		})
	}
	all.Wait()
	return conns, errs
}

func openOne(ctx context.Context, o *options) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", o.Target.String())
	if err != nil {
		return nil, err
	}
	if o.tls {
		c = tls.Client(c, clientTLS())
	}
	if err := ask(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func ask(c net.Conn) error {
	if _, err := io.WriteString(c, request); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
