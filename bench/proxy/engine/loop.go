package engine

import (
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readable = unix.EPOLLIN | unix.EPOLLRDHUP
	writable = unix.EPOLLOUT

	readBuffer = 256 << 10
	// pollTime bounds a wait, so that the end of a run is noticed.
	pollTime = 10 * time.Millisecond
)

// handler is what a descriptor's events are for.
type handler interface{ ready(events uint32) }

// Loop is an event loop over sockets.
type Loop struct {
	epoll    int
	handlers []handler // by descriptor
	buf      []byte    // what was read; valid until the next read
	start    time.Time
	err      error
}

// NewLoop makes a loop without sockets.
func NewLoop() (*Loop, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	return &Loop{epoll: fd, buf: make([]byte, readBuffer), start: time.Now()}, nil
}

// Close closes the loop and every socket in it.
func (l *Loop) Close() {
	for fd, h := range l.handlers {
		if h != nil {
			_ = unix.Close(fd)
		}
	}
	_ = unix.Close(l.epoll)
}

// now is the time since the loop was made, in nanoseconds.
func (l *Loop) now() int64 { return int64(time.Since(l.start)) }

// fail ends the run with an error; the first one counts.
func (l *Loop) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *Loop) add(fd int, h handler) {
	for fd >= len(l.handlers) {
		l.handlers = append(l.handlers, make([]handler, 1024)...)
	}
	l.handlers[fd] = h
	ev := unix.EpollEvent{Events: readable, Fd: int32(fd)}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		l.fail(fmt.Errorf("epoll_ctl: %w", err))
	}
}

// wantWrite says whether to wait until the socket can be written to, too.
func (l *Loop) wantWrite(fd int, want bool) {
	ev := unix.EpollEvent{Events: readable, Fd: int32(fd)}
	if want {
		ev.Events |= writable
	}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_MOD, fd, &ev); err != nil {
		l.fail(fmt.Errorf("epoll_ctl: %w", err))
	}
}

func (l *Loop) close(fd int) {
	l.handlers[fd] = nil
	_ = unix.Close(fd)
}

// run handles events until a time, or until something fails. before, if there
// is one, is called ahead of every wait, and says when it must be called again.
func (l *Loop) run(until int64, before func(now int64) int64) error {
	var events [512]unix.EpollEvent
	wait := unix.NsecToTimespec(int64(pollTime))
	for l.err == nil {
		now := l.now()
		if now >= until {
			return nil
		}
		if before != nil {
			wait = unix.NsecToTimespec(max(0, min(before(now)-now, int64(pollTime))))
		}
		// A raw call: this thread has nobody to hand its processor to.
		n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(l.epoll),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&wait)), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return fmt.Errorf("epoll_pwait2: %w", errno)
		}
		for _, ev := range events[:int(n)] {
			if h := l.handlers[ev.Fd]; h != nil {
				h.ready(ev.Events)
			}
		}
	}
	return l.err
}

// read reads what there is, which may be nothing, and says whether the peer
// has closed or reset the connection.
func (l *Loop) read(fd int) (b []byte, closed bool) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&l.buf[0])), uintptr(len(l.buf)))
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return nil, false
	case errno != 0 || n == 0:
		return nil, true
	}
	return l.buf[:n], false
}

// write writes what fits and says how much that was; a broken connection is
// noticed by the next read.
func write(fd int, p []byte) int {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	if errno != 0 {
		return 0
	}
	return int(n)
}
