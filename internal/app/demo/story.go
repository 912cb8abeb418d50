package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/internal/app/clientstatus"
	"github.com/xebec-proxy/xebec/xds"
)

// story tells what happens while it makes it happen.
type story struct {
	*stage
	// clients are the gRPC client with xDS of its own, and one without that calls
	// the proxy.
	clients []*client
	status  *grpc.ClientConn
	// tls is a client of the proxy's port with TLS, nil if it has none.
	tls  *secure
	step int
}

func (s *story) say(format string, args ...any) {
	s.step++
	fmt.Fprintf(s.Out, "\n%d. %s\n", s.step, fmt.Sprintf(format, args...))
}

func (s *story) add(format string, args ...any) {
	fmt.Fprintf(s.Out, "   %s\n", fmt.Sprintf(format, args...))
}

// begin introduces everybody and waits for the first answers.
func (s *story) begin(ctx context.Context) error {
	s.say("The configuration: resource files in %s", s.dir.path)
	s.say("The management server reads them and serves xDS on %s", s.management.XDSAddress())
	s.add("Its admin pages are at http://%s/", s.management.AdminAddress())
	s.say("Two servers of one gRPC service: %s on %s, %s on %s", nameA, s.a.listener.Addr(), nameB, s.b.listener.Addr())
	s.say("A gRPC client, with gRPC's own xDS, dials %s", target)
	if err := s.first(ctx, s.clients[0], clientNode); err != nil {
		return err
	}
	if len(s.clients) < 2 {
		s.say("A proxy, which has nothing to do: %v", errNoPort)
		return nil
	}
	s.say("A proxy listens on %s, for clients that know nothing of xDS; one of them calls it", s.clients[1].target)
	if s.tls != nil {
		s.add("It also listens on %s, with TLS and a certificate that the demo has made", s.tls.address)
	}
	return s.first(ctx, s.clients[1], proxyNode)
}

// first makes a client's first request, and tells what its node subscribed to.
func (s *story) first(ctx context.Context, c *client, node string) error {
	began := time.Now()
	name, err := c.greet(ctx)
	if err != nil {
		return err
	}
	s.add("The first answer came after %v, from %s", since(began), name)
	s.add("To get there it subscribed, as node %q:", node)
	types, err := s.held(ctx, node)
	if err != nil {
		return err
	}
	for _, t := range types {
		for _, r := range t.Resources {
			s.add("  %-8s %s %s", r.State, t.Kind, r.Name)
		}
	}
	return nil
}

// held is what a node holds, as the management server sees it.
func (s *story) held(ctx context.Context, node string) ([]clientstatus.Type, error) {
	clients, err := clientstatus.Fetch(ctx, s.status, node)
	if err != nil {
		return nil, err
	}
	if len(clients) != 1 {
		return nil, fmt.Errorf("the management server has %d streams of node %q, not one", len(clients), node)
	}
	return clients[0].Types, nil
}

// resource is the state of a resource at a node.
func (s *story) resource(ctx context.Context, node string, k xds.Key) (clientstatus.Resource, error) {
	types, err := s.held(ctx, node)
	if err != nil {
		return clientstatus.Resource{}, err
	}
	for _, t := range types {
		for _, r := range t.Resources {
			if t.TypeURL == k.Type && r.Name == k.Name {
				return r, nil
			}
		}
	}
	return clientstatus.Resource{}, fmt.Errorf("%s does not subscribe to the %s %q", node, xds.Kind(k.Type), k.Name)
}

const (
	sample    = 100 // requests to show a distribution
	certainty = 20  // requests in a row to call a move complete
	patience  = 15 * time.Second
)

// once moves the traffic in two edits of the routes, and then changes everything
// else under way.
func (s *story) once(ctx context.Context) error {
	s.say("%d requests of each:", sample)
	for _, c := range s.clients {
		t, err := s.sample(ctx, c)
		if err != nil {
			return err
		}
		if t[nameA] != sample {
			return fmt.Errorf("the routes send everything to %s, but of %d requests it answered %d", nameA, sample, t[nameA])
		}
	}
	if err := s.shift(ctx, 50, 50); err != nil {
		return err
	}
	if err := s.shift(ctx, 0, 100); err != nil {
		return err
	}
	if err := s.others(ctx); err != nil {
		return err
	}
	if err := s.rotate(ctx); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "\nThat is all. `xebec demo` goes on until you interrupt it, for you to edit the files.\n")
	return nil
}

func (s *story) sample(ctx context.Context, c *client) (tally, error) {
	t, err := c.greetMany(ctx, sample)
	if err == nil {
		s.add("%d requests %s: %s", sample, c.by, t)
	}
	return t, err
}

// shift edits the weights, waits for the clients to accept them and for the
// traffic to follow, and says how long that took.
func (s *story) shift(ctx context.Context, a, b int) error {
	s.say("Edit %s: weight %d for %s, %d for %s", routesFile, a, nameA, b, nameB)
	routes := xds.Key{Type: xds.RouteType, Name: routesName}
	nodes := []string{clientNode, proxyNode}[:len(s.clients)]
	var before []string
	for _, node := range nodes {
		r, err := s.resource(ctx, node, routes)
		if err != nil {
			return err
		}
		before = append(before, r.Version)
	}
	began := time.Now()
	if err := s.dir.setWeights(a, b); err != nil {
		return err
	}
	for i, node := range nodes {
		if err := s.accepted(ctx, node, routes, before[i], began); err != nil {
			return err
		}
	}
	for _, c := range s.clients {
		if err := s.follow(ctx, c, began, a == 0); err != nil {
			return err
		}
		t, err := s.sample(ctx, c)
		if err != nil {
			return err
		}
		if t[nameB] == 0 || a == 0 && t[nameA] > 0 || a > 0 && t[nameA] == 0 {
			return fmt.Errorf("the weights are %d and %d, but the answers %s came from %s", a, b, c.by, t)
		}
	}
	return nil
}

// accepted waits until a node has accepted another version of a resource.
func (s *story) accepted(ctx context.Context, node string, k xds.Key, before string, began time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		r, err := s.resource(ctx, node, k)
		switch {
		case err != nil:
			return err
		case r.State == clientstatus.Error:
			return fmt.Errorf("%s rejected the %s: %s", node, xds.Kind(k.Type), r.Reason)
		case r.Version != before && r.State == clientstatus.Synced:
			s.add("%s accepted it %v after the edit", node, since(began))
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return fmt.Errorf("%s has not accepted the %s %q %v after the edit", node, xds.Kind(k.Type), k.Name, since(began))
}

// follow sends requests until they go where the routes say: to B at all, or to B
// only.
func (s *story) follow(ctx context.Context, c *client, began time.Time, only bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	row, moved, need := 0, began, 1
	if only {
		need = certainty
	}
	for row < need {
		if ctx.Err() != nil {
			return fmt.Errorf("%v after the edit the last %d answers %s came from %s", since(began), row, c.by, nameB)
		}
		name, err := c.greet(ctx)
		if err != nil {
			return err
		}
		if row++; name != nameB {
			row = 0
		}
		if row <= 1 {
			moved = time.Now()
		}
	}
	s.add("%s got %s %s %v after it", nameB, map[bool]string{true: "all requests", false: "its first request"}[only], c.by, moved.Sub(began).Round(100*time.Microsecond))
	return nil
}

// others edits each other kind of file while requests go on, none of which may
// fail.
func (s *story) others(ctx context.Context) error {
	if len(s.clients) < 2 {
		return nil
	}
	s.say("Every other kind of file, edited while requests go through the proxy all the time")
	load := startLoad(ctx, s.clients[1].greet)
	defer load.stop()
	a, b := portField(portOf(s.a.listener.Addr())), portField(portOf(s.b.listener.Addr()))
	for _, e := range []struct {
		what, file, old, by string
		resource            xds.Key
	}{
		{"Endpoints: " + nameA + "'s server is where " + nameB + "'s is", "endpoints.yaml", a, b, xds.Key{Type: xds.EndpointType, Name: nameA}},
		{"Cluster: " + nameB + " gets a connect_timeout", "clusters.yaml", "name: " + nameB, "name: " + nameB + "\n  connect_timeout: 2s", xds.Key{Type: xds.ClusterType, Name: nameB}},
		{"Listener: the proxy's statistics get another name", proxyFile, "stat_prefix: greeter", "stat_prefix: front", xds.Key{Type: xds.ListenerType, Name: "greeter-port"}},
	} {
		s.add("%s", e.what)
		before, err := s.resource(ctx, proxyNode, e.resource)
		if err != nil {
			return err
		}
		began := time.Now()
		if err := s.dir.replace(e.file, e.old, e.by); err != nil {
			return err
		}
		if err := s.accepted(ctx, proxyNode, e.resource, before.Version, began); err != nil {
			return err
		}
	}
	sent, failed := load.stop()
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d requests failed while files were edited: %s", len(failed), sent, strings.Join(failed, "; "))
	}
	s.add("Of %d requests meanwhile none failed", sent)
	return nil
}

// goOn sends requests until it is interrupted.
func (s *story) goOn(ctx context.Context) error {
	s.say("Now it is your turn: edit the files in %s and watch. An interrupt ends it.", s.dir.path)
	s.add("In another terminal: xebec status --server %s --watch", s.management.XDSAddress())
	s.add("Ten requests every second:")
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		for _, c := range s.clients {
			t, err := c.greetMany(ctx, 10)
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
				s.add("%s  %s: %v", time.Now().Format(time.TimeOnly), c.by, err)
			default:
				s.add("%s  %s: %s", time.Now().Format(time.TimeOnly), c.by, t)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(100 * time.Microsecond) }
