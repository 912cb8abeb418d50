package client

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/xebec-proxy/xebec/bench/controlplane/clock"
)

const (
	maxEvents = 1024
	// stuckBuffer is the receive buffer of a client that does not read, small
	// so that the server soon notices.
	stuckBuffer = 4096
)

func (f *Fleet) open() error {
	var err error
	if f.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll_create: %w", err)
	}
	if f.wakeFD, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	return f.watch(unix.EPOLL_CTL_ADD, f.wakeFD, unix.EPOLLIN)
}

// wake makes the loop look at its commands.
func (f *Fleet) wake() {
	one := binary.NativeEndian.AppendUint64(nil, 1)
	_, _ = unix.Write(f.wakeFD, one) // fails only if the counter is full: awake anyway
}

// dropAll closes every connection.
func (f *Fleet) dropAll() {
	for _, c := range f.byFD {
		_ = unix.Close(c.fd)
		c.fd = -1
	}
	clear(f.byFD)
	f.dialling = 0
}

func (f *Fleet) release() {
	f.dropAll()
	_ = unix.Close(f.wakeFD)
	_ = unix.Close(f.epoll)
}

func (f *Fleet) watch(op, fd int, events uint32) error {
	if err := unix.EpollCtl(f.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)}); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// poll is the loop. All reads of one round of events come before the writes
// they cause, so that reading the last stream does not wait for the answers of
// the others.
func (f *Fleet) poll() error {
	events := make([]unix.EpollEvent, maxEvents)
	for {
		n, err := unix.EpollWait(f.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			if int(e.Fd) == f.wakeFD {
				if f.command() {
					return nil
				}
				continue
			}
			if err := f.event(e); err != nil {
				return err
			}
		}
		if err := f.flush(); err != nil {
			return err
		}
	}
}

// command runs what other goroutines have posted, and reports whether to stop.
func (f *Fleet) command() (stop bool) {
	var counter [8]byte
	_, _ = unix.Read(f.wakeFD, counter[:]) // EAGAIN: another wake-up emptied it
	for {
		select {
		case fn := <-f.commands:
			fn()
		case <-f.stop:
			return true
		default:
			return false
		}
	}
}

func (f *Fleet) event(e unix.EpollEvent) error {
	c := f.byFD[e.Fd]
	if c == nil {
		return nil // closed earlier in this round
	}
	if e.Events&unix.EPOLLOUT != 0 && c.writable {
		if err := f.nowWritable(c); err != nil {
			return f.lost(c, err)
		}
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		if err := f.read(c); err != nil {
			return f.lost(c, err)
		}
	}
	return nil
}

func (f *Fleet) read(c *conn) error {
	n, err := unix.Read(c.fd, f.in)
	f.now = clock.Now()
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil
	case err != nil:
		return fmt.Errorf("read: %w", err)
	case n == 0:
		return errors.New("the server closed the connection")
	}
	f.count.Bytes += int64(n)
	f.admitted(c)
	return c.frames.feed(f.in[:n], c)
}

// lost drops a connection. That is a failure unless it was to be expected.
func (f *Fleet) lost(c *conn, err error) error {
	if c.stuck == notStuck && (!f.closing || errors.Is(err, ErrContent)) {
		return fmt.Errorf("stream %d: %w", c.id, err)
	}
	delete(f.byFD, int32(c.fd))
	f.admitted(c)
	f.count.Closed++
	if err := unix.Close(c.fd); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	c.fd = -1
	return nil
}

// touch remembers that a connection has something to send.
func (f *Fleet) touch(c *conn) {
	if !c.dirty {
		c.dirty = true
		f.touched = append(f.touched, c)
	}
}

// flush sends what the last round of events has queued.
func (f *Fleet) flush() error {
	for _, c := range f.touched {
		c.dirty = false
		if c.writable || c.fd < 0 {
			continue
		}
		if err := f.write(c); err != nil {
			if err := f.lost(c, err); err != nil {
				return err
			}
		}
	}
	f.touched = f.touched[:0]
	return f.dial()
}

// write sends until nothing is left, flow control forbids more or the socket
// is full; in the last case the loop goes on when it is writable.
func (f *Fleet) write(c *conn) error {
	for {
		b, whole := c.out.unsent, false
		if len(b) == 0 {
			b, whole = c.out.appendTo(f.out[:0])
		}
		if len(b) == 0 {
			return nil
		}
		n, err := unix.Write(c.fd, b)
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("write: %w", err)
		}
		n = max(n, 0)
		if n < len(b) {
			c.out.unsent = append([]byte(nil), b[n:]...)
			c.writable = true
			return f.watch(unix.EPOLL_CTL_MOD, c.fd, c.interest()|unix.EPOLLOUT)
		}
		c.out.unsent = nil
		if whole {
			return nil
		}
	}
}

// interest is what a connection waits for besides being writable.
func (c *conn) interest() uint32 {
	if c.stuck == stuckReading {
		return 0
	}
	return unix.EPOLLIN
}

// nowWritable continues a connection that was connecting or whose socket was
// full.
func (f *Fleet) nowWritable(c *conn) error {
	if c.connecting {
		c.connecting = false
		if c.stuck == stuckReading {
			f.admitted(c)
		}
		if code, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return fmt.Errorf("connect: %w", errors.Join(err, unix.Errno(code)))
		}
	}
	c.writable = false
	f.touch(c)
	return f.watch(unix.EPOLL_CTL_MOD, c.fd, c.interest())
}
