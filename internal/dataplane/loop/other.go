//go:build !linux

package loop

// Listener accepts connections for a loop.
type Listener struct {
	loop   *Loop
	fd     int
	native *portableListener
	accept Accept
}

// fdSocket is where there are descriptors.
type fdSocket struct{}

func newPoller(l *Loop, _ *Options) (poller, error) { return newPortable(l), nil }

// Listen needs epoll: use ListenOn.
func (l *Loop) Listen(int, Accept) (*Listener, error) { return nil, errPortable }

// Pause makes the loop leave connections with the system, or take them again.
func (ln *Listener) Pause(pause bool) { ln.native.pause(pause) }

// Close stops accepting and closes the socket.
func (ln *Listener) Close() { ln.native.close() }

// Descriptor is the connection's socket, or -1 where there is none.
func (c *Conn) Descriptor() int { return -1 }
