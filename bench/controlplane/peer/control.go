package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/xebec-proxy/xebec/bench/controlplane/clock"
	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// Bumped answers POST /bump.
type Bumped struct {
	// Published is the time (clock.Now) just before the change was published,
	// Returned just after the publishing call had returned.
	Published, Returned int64
}

// Stats answers GET /stats.
type Stats struct {
	PID int
	// Started is when the process began (clock.Now); it tells a restarted
	// process from the one before.
	Started int64
	// TotalAlloc is the bytes allocated so far, Mallocs the objects.
	TotalAlloc, Mallocs uint64
	// HeapAlloc is the bytes in the heap, Sys the bytes taken from the system.
	HeapAlloc, Sys uint64
	Goroutines     int
	// CPUMicros is user and system time in microseconds.
	CPUMicros int64
	// RSS and PeakRSS are the resident bytes now and at most.
	RSS, PeakRSS int64
}

// restartGrace lets the answer to POST /restart leave before the process is
// replaced.
const restartGrace = 50 * time.Millisecond

type control struct {
	server  Server
	options Options
	open    func() error
	started int64

	mu  sync.Mutex // serialises changes
	gen int
}

func (c *control) routes() http.Handler {
	c.started = clock.Now()
	m := http.NewServeMux()
	m.HandleFunc("POST /bump", c.bump)
	m.HandleFunc("GET /stats", c.stats)
	m.HandleFunc("POST /gc", func(http.ResponseWriter, *http.Request) {
		runtime.GC()
		debug.FreeOSMemory()
		forgetPeak()
	})
	m.HandleFunc("POST /open", func(w http.ResponseWriter, _ *http.Request) {
		if err := c.open(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	m.HandleFunc("POST /restart", func(http.ResponseWriter, *http.Request) {
		time.AfterFunc(restartGrace, restart)
	})
	m.HandleFunc("GET /debug/pprof/", pprof.Index)
	m.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	return m
}

func (c *control) bump(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, i, err := c.which(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	publish, err := c.server.Prepare(k, i, c.gen)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b := Bumped{Published: clock.Now()}
	if err := publish(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b.Returned = clock.Now()
	answer(w, b)
}

// which reads what to change; without a generation it is the next one.
func (c *control) which(r *http.Request) (resources.Kind, int, error) {
	k, err := resources.ParseKind(r.FormValue("type"))
	if err != nil {
		return 0, 0, err
	}
	if !slices.Contains(c.options.Kinds(), k) {
		return 0, 0, fmt.Errorf("this server holds no %s resources; start it with -%s", k, k)
	}
	i, err := strconv.Atoi(r.FormValue("i"))
	if err != nil || i < 0 || i >= c.options.Clusters {
		return 0, 0, fmt.Errorf("i=%q: want 0 to %d", r.FormValue("i"), c.options.Clusters-1)
	}
	c.gen++
	if g := r.FormValue("gen"); g != "" {
		if c.gen, err = strconv.Atoi(g); err != nil {
			return 0, 0, fmt.Errorf("gen=%q: want a number", g)
		}
	}
	return k, i, nil
}

func (c *control) stats(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s := Stats{
		PID: os.Getpid(), Started: c.started, TotalAlloc: m.TotalAlloc, Mallocs: m.Mallocs, HeapAlloc: m.HeapAlloc, Sys: m.Sys,
		Goroutines: runtime.NumGoroutine(), CPUMicros: clock.CPU().Microseconds(),
	}
	var err error
	if s.RSS, s.PeakRSS, err = residence(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, s)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the caller has gone if this fails
}

// residence reads the resident set, now and at most, in bytes.
func residence() (now, peak int64, err error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "VmRSS:":
			now, err = strconv.ParseInt(f[1], 10, 64)
		case "VmHWM:":
			peak, err = strconv.ParseInt(f[1], 10, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	if peak == 0 {
		return 0, 0, errors.New("/proc/self/status: no VmHWM")
	}
	return now << 10, peak << 10, nil
}

// forgetPeak makes the kernel forget the largest resident set so far, so that
// the memory used for loading does not count. Without the right to do so it
// counts, for every server alike.
func forgetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) }

// restart replaces the process by itself; every connection closes, as all
// sockets are close-on-exec.
func restart() {
	args := append(slices.DeleteFunc(slices.Clone(os.Args), func(a string) bool { return a == "-hold" }), "-hold")
	err := syscall.Exec("/proc/self/exe", args, os.Environ()) //nolint:forbidigo // it stays the process that it is
	panic(fmt.Sprintf("restart: %v", err))
}
