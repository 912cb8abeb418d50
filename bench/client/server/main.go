// Command server is the management server that all clients under test are
// measured against: Xebec's, in a process of its own. It counts what the client
// sends and receives.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/bench/client/resources"
	"github.com/xebec-proxy/xebec/bench/client/talk"
	"github.com/xebec-proxy/xebec/snapshot"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

const (
	// acknowledge is how long a client may take to acknowledge a change.
	acknowledge = 10 * time.Second
	look        = 200 * time.Microsecond
	// stride spreads the changes over the clusters; it has no factor in common
	// with a round number.
	stride = 37
)

func main() {
	clusters := flag.Int("clusters", 2000, "`number` of clusters, each with an assignment")
	flag.Parse()
	if err := run(*clusters, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until its input ends.
func run(clusters int, in io.Reader, out io.Writer) error {
	s, err := newServer(clusters)
	if err != nil {
		return err
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	gs := grpc.NewServer(append(s.xds.GRPCOptions(), grpc.StatsHandler(&s.counter))...)
	s.xds.Register(gs)
	ended := make(chan error, 1)
	go func() { ended <- gs.Serve(listener{l, &s.counter}) }()
	if err := json.NewEncoder(out).Encode(talk.Traffic{Address: l.Addr().String()}); err != nil {
		return err
	}
	err = talk.Serve(in, out, s.answer)
	gs.Stop()
	if failed := <-ended; failed != nil {
		return failed
	}
	return err
}

// server holds the clusters and changes them.
type server struct {
	xds        *xdsserver.Server
	counter    counter
	clusters   int
	generation int
}

func newServer(clusters int) (*server, error) {
	x, err := xdsserver.New()
	if err != nil {
		return nil, err
	}
	s := &server{xds: x, clusters: clusters}
	var all []*xds.Resource
	for i := range clusters {
		c, err := xds.Marshal(resources.Name(i), resources.Cluster(i, 0))
		if err != nil {
			return nil, err
		}
		a, err := xds.Marshal(resources.Name(i), resources.Assignment(i))
		if err != nil {
			return nil, err
		}
		all = append(all, c, a)
	}
	return s, s.apply(snapshot.Batch{Full: true}, snapshot.Changes{Replace: true, Set: all})
}

func (s *server) apply(b snapshot.Batch, c snapshot.Changes) error {
	b.Groups = map[string]snapshot.Changes{xdsserver.DefaultGroup: c}
	return s.xds.Apply(b)
}

func (s *server) answer(q talk.Ask) talk.Traffic {
	var err error
	switch q.Do {
	case talk.Counts:
	case talk.Change:
		err = s.change(q.Times, q.Pause)
	default:
		err = fmt.Errorf("no such request: %s", q.Do)
	}
	t := s.counter.traffic()
	if err != nil {
		t.Error = err.Error()
	}
	return t
}

// change changes clusters one after the other, each when the client has
// acknowledged the one before and had time to come to rest.
func (s *server) change(times int, pause time.Duration) error {
	for range times {
		s.generation++
		i := s.generation * stride % s.clusters
		r, err := xds.Marshal(resources.Name(i), resources.Cluster(i, s.generation))
		if err != nil {
			return err
		}
		before := s.acknowledged()
		if err := s.apply(snapshot.Batch{}, snapshot.Changes{Set: []*xds.Resource{r}}); err != nil {
			return err
		}
		for deadline := time.Now().Add(acknowledge); s.acknowledged() == before; time.Sleep(look) {
			if time.Now().After(deadline) {
				return fmt.Errorf("change %d was not acknowledged within %v", s.generation, acknowledge)
			}
		}
		time.Sleep(pause)
	}
	return nil
}

func (s *server) acknowledged() (n uint64) {
	for _, t := range s.xds.Stats().Types {
		n += t.Acks
	}
	return n
}
