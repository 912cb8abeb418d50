package loop

import (
	"errors"
	"syscall"
	"unsafe"
)

// sendRing makes the sends of a turn in one system call.
type sendRing struct {
	ring *uring
}

var (
	errNotSent = errors.New("not sent yet")
	errNoRing  = errors.New("io_uring_enter: sends are not made")
)

// newSendRing fails where io_uring cannot be used.
func newSendRing() (*sendRing, error) {
	u, err := newUring()
	if err != nil {
		return nil, err
	}
	s := &sendRing{u}
	if !s.works() {
		s.close()
		return nil, errNoRing
	}
	return s, nil
}

// works makes a send that must fail: some systems let a process have a ring
// that they do not let it use.
func (s *sendRing) works() (yes bool) {
	s.put(-1, []byte{0}, 0)
	s.ring.submit(func(_ uint64, result int32) { yes = -result == int32(syscall.EBADF) })
	return yes
}

func (s *sendRing) close() { s.ring.close() }

func (s *sendRing) put(fd int, data []byte, user int) {
	s.ring.put(uringRequest{
		opcode: uringSend, fd: int32(fd), flags: syscall.MSG_NOSIGNAL | syscall.MSG_DONTWAIT,
		address: uint64(uintptr(unsafe.Pointer(&data[0]))), length: uint32(min(len(data), 1<<30)), user: uint64(user),
	})
}

// send implements sender.
func (s *sendRing) send(out []outgoing) {
	for i := range out {
		o := &out[i]
		if len(o.data) == 0 || o.err != nil {
			continue
		}
		if s.ring.waiting() == uringSize {
			s.submit(out)
		}
		sock, _ := o.conn.sock.(*fdSocket)
		s.put(sock.fd(), o.data, i)
		o.err = errNotSent
	}
	s.submit(out)
	for i := range out {
		if o := &out[i]; o.err == errNotSent { //nolint:errorlint // it is set above
			o.sent, o.err = o.conn.sock.send(o.data, nil)
		}
	}
}

// submit makes the sends that wait. One alone costs less without the ring.
func (s *sendRing) submit(out []outgoing) {
	if s.ring.waiting() < 2 {
		s.ring.drop()
		return
	}
	s.ring.submit(func(user uint64, result int32) {
		o := &out[user]
		o.sent, o.err = sendResult(int(result), syscall.Errno(max(-result, 0)))
	})
}
