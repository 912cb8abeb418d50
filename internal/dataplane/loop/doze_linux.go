package loop

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// doze is where a loop waits that has had nothing to do for a while: in the
// runtime's own poller, as any goroutine that waits for the network. The
// processor is free meanwhile and nothing wakes the loop but its sockets, its
// timers and Post, so that it costs nothing; the first event afterwards costs
// more than with the processor kept.
//
// The runtime watches an epoll descriptor for that, which watches the loop's
// own while the loop waits there, and only then: every event would wake a
// thread otherwise.
type doze struct {
	file *os.File // the descriptor between
	raw  syscall.RawConn
	fd   int
	loop *epoll
	look func(uintptr) bool // reports whether the wait is over
	n    int                // events that were found

	until time.Duration // when a wait ends in any case, by the loop's clock
}

// watchful is how long a loop keeps its processor after its last event. The
// runtime interrupts whoever has it for 10 ms.
const watchful = 5 * time.Millisecond

// keptIdle bounds the wait of a loop that cannot doze, and keeps its processor.
const keptIdle = 100 * time.Millisecond

func newDoze(p *epoll) (*doze, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // else the runtime does not watch it
		_ = unix.Close(fd)
		return nil, fmt.Errorf("fcntl: %w", err)
	}
	d := &doze{file: os.NewFile(uintptr(fd), "epoll"), fd: fd, loop: p}
	d.look = func(uintptr) bool {
		d.n, _ = p.peek(0)
		return d.n > 0
	}
	if d.raw, err = d.file.SyscallConn(); err == nil {
		err = d.file.SetReadDeadline(time.Time{}) // an error where the runtime does not watch it
	}
	if err != nil {
		_ = d.file.Close()
		return nil, fmt.Errorf("the runtime's poller: %w", err)
	}
	return d, nil
}

// wait waits for events of the loop, at most so long, and gives their number. After
// an error it did not wait, and will not again.
func (d *doze) wait(most time.Duration) (n int, err error) {
	d.n = 0
	if err := d.limit(most); err != nil {
		return 0, err
	}
	e := syscall.EpollEvent{Events: syscall.EPOLLIN}
	if err := syscall.EpollCtl(d.fd, syscall.EPOLL_CTL_ADD, d.loop.fd, &e); err != nil {
		return 0, fmt.Errorf("epoll_ctl: %w", err)
	}
	_ = d.raw.Read(d.look) // an error is the end of the wait
	if err := syscall.EpollCtl(d.fd, syscall.EPOLL_CTL_DEL, d.loop.fd, &e); err != nil {
		return d.n, fmt.Errorf("epoll_ctl: %w", err)
	}
	return d.n, nil
}

// limit bounds the wait. A bound from before that comes earlier stays, since a new one
// wakes a thread.
func (d *doze) limit(most time.Duration) error {
	now := time.Since(d.loop.loop.start)
	if d.until > now && d.until <= now+most {
		return nil
	}
	d.until = now + most
	if err := d.file.SetReadDeadline(time.Now().Add(most)); err != nil {
		return fmt.Errorf("the runtime's poller: %w", err)
	}
	return nil
}

func (d *doze) close() { _ = d.file.Close() }
