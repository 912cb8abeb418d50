package loop

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// uring is an io_uring for requests that do not wait: submit makes them and has
// all their results when it returns, so that the system holds no memory and no
// descriptor in between. From linux/io_uring.h and io_uring(7).
type uring struct {
	fd       int
	rings    []byte // the indices of both rings, and the results
	array    []byte // the requests
	requests []uringRequest
	results  []uringResult
	tail     uint32 // of the requests
	sq, cq   uringQueue
}

// uringQueue is one of the two rings. Who takes writes head, who puts writes tail.
type uringQueue struct {
	head, tail *uint32
	mask       uint32
}

// uringRequest is struct io_uring_sqe, as far as a send uses it.
type uringRequest struct {
	opcode  uint8
	_       [3]byte
	fd      int32
	_       uint64
	address uint64
	length  uint32
	flags   uint32 // of the operation
	user    uint64
	_       [24]byte
}

// uringResult is struct io_uring_cqe. A negative result is an error's number.
type uringResult struct {
	user   uint64
	result int32
	_      uint32
}

// uringParams is struct io_uring_params.
type uringParams struct {
	requests, results, flags uint32
	_                        [7]uint32
	// What the memory of the rings has where: struct io_sqring_offsets and struct
	// io_cqring_offsets.
	sqHead, sqTail, sqMask, _, _, _, sqArray, _ uint32
	_                                           uint64
	cqHead, cqTail, cqMask, _, _, cqArray, _, _ uint32
	_                                           uint64
}

const (
	uringSize        = 64         // the collector waits as long as so many sends take
	uringSubmitAll   = 1 << 7     // IORING_SETUP_SUBMIT_ALL (5.18): one that is refused does not stop the next
	uringGetEvents   = 1          // IORING_ENTER_GETEVENTS
	uringRequestsAt  = 0x10000000 // IORING_OFF_SQES
	uringSend        = 26         // IORING_OP_SEND
	uringRequestSize = int(unsafe.Sizeof(uringRequest{}))
	uringResultSize  = uint32(unsafe.Sizeof(uringResult{}))
)

// newUring fails where there is no io_uring, or this process may not have one.
func newUring() (*uring, error) {
	p := uringParams{flags: uringSubmitAll}
	fd, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, uringSize, uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		return nil, os.NewSyscallError("io_uring_setup", e)
	}
	u := &uring{fd: int(fd)}
	if err := u.share(&p); err != nil {
		u.close()
		return nil, fmt.Errorf("memory of an io_uring: %w", err)
	}
	return u, nil
}

// share maps the memory that the rings are in.
func (u *uring) share(p *uringParams) (err error) {
	const access, how = unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED | unix.MAP_POPULATE
	size := max(p.sqArray+p.requests*4, p.cqArray+p.results*uringResultSize)
	if u.rings, err = unix.Mmap(u.fd, 0, int(size), access, how); err != nil {
		return err //nolint:wrapcheck // the caller says what it is
	}
	if u.array, err = unix.Mmap(u.fd, uringRequestsAt, int(p.requests)*uringRequestSize, access, how); err != nil {
		return err //nolint:wrapcheck // the caller says what it is
	}
	u.sq = uringQueue{u.at(p.sqHead), u.at(p.sqTail), *u.at(p.sqMask)}
	u.cq = uringQueue{u.at(p.cqHead), u.at(p.cqTail), *u.at(p.cqMask)}
	u.requests = unsafe.Slice((*uringRequest)(unsafe.Pointer(&u.array[0])), p.requests)
	u.results = unsafe.Slice((*uringResult)(unsafe.Pointer(u.at(p.cqArray))), p.results)
	order := unsafe.Slice(u.at(p.sqArray), p.requests)
	for i := range order {
		order[i] = uint32(i) // requests are made in the order they are put
	}
	return nil
}

func (u *uring) at(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&u.rings[offset])) }

func (u *uring) close() {
	for _, m := range [][]byte{u.rings, u.array} {
		if m != nil {
			_ = unix.Munmap(m)
		}
	}
	_ = unix.Close(u.fd)
}

// waiting is how many requests were put and not submitted: uringSize at most.
func (u *uring) waiting() int { return int(u.tail - atomic.LoadUint32(u.sq.head)) }

// put adds a request. What it points to must stay until submit.
func (u *uring) put(r uringRequest) {
	u.requests[u.tail&u.sq.mask] = r
	u.tail++
}

// drop forgets what waits.
func (u *uring) drop() { u.tail = atomic.LoadUint32(u.sq.head) }

// submit makes the requests that wait and hands out their results. Those that
// the system did not take are dropped.
func (u *uring) submit(done func(user uint64, result int32)) {
	atomic.StoreUint32(u.sq.tail, u.tail)
	made := u.enter(u.waiting(), 0, 0)
	u.drop()
	atomic.StoreUint32(u.sq.tail, u.tail)
	for range made {
		head := *u.cq.head
		for head == atomic.LoadUint32(u.cq.tail) {
			u.enter(0, 1, uringGetEvents) // not met: such requests are done at once
		}
		r := u.results[head&u.cq.mask]
		atomic.StoreUint32(u.cq.head, head+1)
		done(r.user, r.result)
	}
}

// enter is the system call: how many requests were made.
func (u *uring) enter(submit, wait int, flags uintptr) int {
	n, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(u.fd), uintptr(submit), uintptr(wait), flags, 0, 0)
	if e != 0 {
		return 0
	}
	return int(n)
}
