package admin

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
)

// defaultProfilePath is Envoy's (config/bootstrap/v3 Admin.profile_path).
const defaultProfilePath = "/var/log/envoy/envoy.prof"

// profiler takes CPU profiles into a file (AD-17). The process has one at a time.
type profiler struct {
	path string
	mu   sync.Mutex
	file *os.File // of the profile that is being taken, or nil
}

var errProfiling = errors.New("a profile is being taken already: POST /cpuprofiler?enable=n ends it")

// start begins a profile. The file is written beside its place, so that there is
// never half of one.
func (p *profiler) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		return errProfiling
	}
	f, err := os.CreateTemp(filepath.Dir(p.path), ".profile-*")
	if err != nil {
		return fmt.Errorf("no profile can be written: %w: create the directory, or name another file in admin.profile_path", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	p.file = f
	return nil
}

// stop ends the profile, if there is one, and puts the file in its place.
func (p *profiler) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.file
	if f == nil {
		return nil
	}
	p.file = nil
	pprof.StopCPUProfile()
	if err := errors.Join(f.Close(), os.Rename(f.Name(), p.path)); err != nil {
		return fmt.Errorf("the profile was not written: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// cpuProfiler is /cpuprofiler (AD-17).
func (s *Server) cpuProfiler(w http.ResponseWriter, r *http.Request) {
	do := s.profiler.stop
	switch r.URL.Query().Get("enable") {
	case "y":
		do = s.profiler.start
	case "n":
	default:
		reply(w, http.StatusBadRequest, "?enable=<y|n>\n")
		return
	}
	if err := do(); err != nil {
		s.failed(w, r, err)
		return
	}
	done(w)
}

// heapDump is /heap_dump: what is held now, and what was allocated since the
// start, in the format of pprof.
func (s *Server) heapDump(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	if err := pprof.Lookup("heap").WriteTo(&b, 0); err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b.Bytes())
}
