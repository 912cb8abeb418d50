package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xebec-proxy/xebec/internal/app"
	"github.com/xebec-proxy/xebec/internal/localcert"
	"github.com/xebec-proxy/xebec/proxy"
)

// Options say what to show.
type Options struct {
	// Dir is the directory to serve. One that is empty or does not exist gets
	// the files of examples/quickstart; without a name a temporary one does.
	Dir string
	// Once shows one change and returns; otherwise the demo goes on until it is
	// interrupted.
	Once bool
	// Out gets the story, Log what the server logs.
	Out     io.Writer
	Log     *slog.Logger
	Version string
}

// ErrNotFresh says that the demo does not edit files that it has not written.
var ErrNotFresh = errors.New("the directory has files already, and this demo edits its files")

// Run shows the demo. The error says what did not happen.
func Run(ctx context.Context, o Options) (err error) {
	dir, err := openDirectory(o.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.close()) }()
	if o.Once && !dir.fresh {
		return fmt.Errorf("%w: leave the directory out, or name a new one", ErrNotFresh)
	}
	s := &stage{Options: o, dir: dir}
	if err := s.build(ctx); err != nil {
		return err
	}
	return s.run(ctx)
}

// stage is everything that runs during the demo.
type stage struct {
	Options
	dir        directory
	a, b       *greeter
	management *app.Management
	proxy      *proxy.Proxy
	// authority signs the proxy's certificates, if the files are the demo's own.
	authority *localcert.Authority
}

func (s *stage) build(ctx context.Context) error {
	la, err := s.listen(ctx, portA)
	if err != nil {
		return err
	}
	lb, err := s.listen(ctx, portB)
	if err != nil {
		return errors.Join(err, la.Close())
	}
	if s.dir.fresh {
		err = s.writeFiles(ctx, la.Addr(), lb.Addr())
	}
	if err == nil {
		err = s.buildManagement(ctx)
	}
	if err == nil {
		s.proxy, err = newProxy(s.management.XDSAddress(), s.Version, s.Log) //nolint:contextcheck // nothing is contacted before Run
	}
	if err != nil {
		return errors.Join(err, la.Close(), lb.Close())
	}
	s.a, s.b = newGreeter(nameA, la), newGreeter(nameB, lb)
	return nil
}

// writeFiles writes the files with ports that can be used.
func (s *stage) writeFiles(ctx context.Context, a, b net.Addr) error {
	plain, err := s.listen(ctx, proxyPort)
	if err != nil {
		return err
	}
	secure, err := s.listen(ctx, securePort)
	if err != nil {
		return errors.Join(err, plain.Close())
	}
	err = s.dir.write(ports{a, b, plain.Addr(), secure.Addr()})
	err = errors.Join(err, plain.Close(), secure.Close()) // the proxy opens them again
	if err != nil {
		return err
	}
	if s.authority, err = newAuthority(); err != nil {
		return err
	}
	return s.dir.writeCertificate(s.authority, day)
}

// listen takes a sample server's port, or any other if it is taken and the
// files can still say so.
func (s *stage) listen(ctx context.Context, port int) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil && s.dir.fresh {
		l, err = lc.Listen(ctx, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, fmt.Errorf("port %d, which the files in %s name for a sample server, cannot be used: %w", port, s.dir.path, err)
	}
	return l, nil
}

func (s *stage) buildManagement(ctx context.Context) error {
	settings := app.Settings{
		Dir: s.dir.path, XDSAddress: app.DefaultXDSAddress, AdminAddress: app.DefaultAdminAddress,
		DrainTime: 200 * time.Millisecond, Version: s.Version, Log: s.Log,
	}
	var err error
	s.management, err = app.New(ctx, settings)
	if errors.Is(err, syscall.EADDRINUSE) {
		settings.XDSAddress, settings.AdminAddress = "127.0.0.1:0", "127.0.0.1:0"
		s.management, err = app.New(ctx, settings)
	}
	return err
}

// run starts everything, tells the story, and stops everything.
func (s *stage) run(parent context.Context) error {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, run := range []func(context.Context) error{s.management.Run, s.a.run, s.b.run, s.proxy.Run} {
		g.Go(func() error { return run(ctx) })
	}
	g.Go(func() error {
		defer cancel()
		err := s.tell(ctx)
		if parent.Err() != nil && !s.Once {
			return nil // interrupted, which is how it ends
		}
		return err
	})
	return g.Wait()
}

func (s *stage) tell(ctx context.Context) error {
	c, err := newClient(s.management.XDSAddress())
	if err != nil {
		return err
	}
	defer c.conn.Close()
	conn, err := grpc.NewClient("passthrough:///"+s.management.XDSAddress(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the management server: %w", err)
	}
	defer conn.Close()
	t := &story{stage: s, clients: []*client{c}, status: conn}
	switch at, err := addresses(ctx, s.proxy); {
	case err == nil:
		plain, err := newPlainClient(plainAddress(at))
		if err != nil {
			return err
		}
		defer plain.conn.Close()
		t.clients = append(t.clients, plain)
		if s.authority != nil && len(at[secureName]) > 0 {
			t.tls = &secure{at[secureName][0], s.authority.Pool()}
		}
	case !errors.Is(err, errNoPort):
		return err
	}
	if err := t.begin(ctx); err != nil {
		return err
	}
	if s.Once {
		return t.once(ctx)
	}
	return t.goOn(ctx)
}

// plainAddress is the one that clients without TLS call: that of the quick start's
// listener, or the first.
func plainAddress(at map[string][]string) string {
	if list := at[plainName]; len(list) > 0 {
		return list[0]
	}
	return at[slices.Sorted(maps.Keys(at))[0]][0]
}
