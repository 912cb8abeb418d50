// Command gocontrolplane is the client under test built on go-control-plane's
// state-of-the-world client. That one asks for everything of one type and hands
// over each response as it came; finding out what has changed, and decoding it,
// is up to its user, which this program is.
package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3" //nolint:depguard // it is what is compared
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/bench/client/client"
	"github.com/xebec-proxy/xebec/bench/client/resources"
)

func main() { client.Main("gocontrolplane", run) }

func run(ctx context.Context, o client.Options, in io.Reader, out io.Writer) error {
	if o.Delta || o.Bare {
		return errors.New("-delta, -bare: this client has neither")
	}
	conn, err := grpc.NewClient(o.Address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	u := &user{ctx: ctx, conn: conn}
	defer u.done.Wait()
	defer conn.Close()
	defer cancel()
	if err := u.warm(); err != nil {
		return err
	}
	return o.Run(ctx, in, out, u, &u.seen)
}

// user is what a program has to do around the client.
type user struct {
	ctx  context.Context
	conn *grpc.ClientConn
	seen client.Seen
	done sync.WaitGroup
}

// warm does what is to be done once, whatever the number of resources: the
// client's heap is measured from here on.
func (u *user) warm() error {
	u.conn.Connect()
	for s := u.conn.GetState(); s != connectivity.Ready; s = u.conn.GetState() {
		if !u.conn.WaitForStateChange(u.ctx, s) {
			return u.ctx.Err()
		}
	}
	b, err := proto.Marshal(resources.Cluster(0, 0))
	if err != nil {
		return err
	}
	return proto.Unmarshal(b, &clusterv3.Cluster{})
}

func (u *user) Watch(from, _ int, assignments bool) error {
	if from != 0 || assignments {
		return errors.New("this client can only watch all clusters")
	}
	c := sotw.NewADSClient(u.ctx, &corev3.Node{Id: "bench"}, resources.ClusterType)
	if err := c.InitConnect(u.conn); err != nil {
		return err
	}
	u.done.Go(func() {
		if err := u.follow(c); u.ctx.Err() == nil {
			u.seen.Fail(err)
		}
	})
	return nil
}

func (u *user) follow(c sotw.ADSClient) error {
	var held []*held
	for {
		r, err := c.Fetch()
		if err != nil {
			return err
		}
		if held, err = u.take(held, r.Resources); err != nil {
			return err
		}
		if err := c.Ack(); err != nil {
			return err
		}
	}
}

// held is a cluster and the bytes it was made of.
type held struct {
	encoded []byte
	cluster *clusterv3.Cluster
}

// take decodes what differs from the resource that was at the same place in the
// response before; the server keeps the order. No user can do it for less.
func (u *user) take(before []*held, now []*anypb.Any) ([]*held, error) {
	if len(now) != len(before) {
		before = make([]*held, len(now))
	}
	for i, a := range now {
		if before[i] != nil && bytes.Equal(before[i].encoded, a.GetValue()) {
			before[i].encoded = a.GetValue() // so that the response before can go
			continue
		}
		h := &held{encoded: a.GetValue(), cluster: &clusterv3.Cluster{}}
		if err := proto.Unmarshal(h.encoded, h.cluster); err != nil {
			return nil, err
		}
		before[i] = h
		u.seen.Add()
	}
	return before, nil
}
