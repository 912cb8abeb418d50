package admin

import (
	"net/http"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
)

// ready is /ready (AD-02).
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	state := s.o.View.Info().GetState()
	status := http.StatusOK
	if state != adminv3.ServerInfo_LIVE {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, state.String()+"\n")
}

func (s *Server) info(w http.ResponseWriter, r *http.Request) {
	s.json(w, r, s.o.View.Info(), whole)
}

func (s *Server) certs(w http.ResponseWriter, r *http.Request) {
	s.json(w, r, s.o.View.Certificates(), whole)
}

func (s *Server) memory(w http.ResponseWriter, r *http.Request) {
	s.json(w, r, s.o.View.Memory(), whole)
}

func (s *Server) ok(w http.ResponseWriter, _ *http.Request) { done(w) }

// lookups is /stats/recentlookups: statistics are looked up by name when
// configuration is built, never for a request.
func (s *Server) lookups(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, "Nothing is looked up by name while requests are served, so there is nothing to track.\n\ntotal: 0\n")
}

func (s *Server) contention(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, "Mutex contention tracing is not enabled: this version has none.")
}

// hotRestart says what Envoy says with --disable-hot-restart.
func (s *Server) hotRestart(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, "disabled")
}

func (s *Server) reset(w http.ResponseWriter, r *http.Request) {
	if err := s.o.View.ResetCounters(r.Context()); err != nil {
		s.failed(w, r, err)
		return
	}
	done(w)
}

func (s *Server) reopen(w http.ResponseWriter, r *http.Request) {
	if err := s.o.View.ReopenLogs(); err != nil {
		s.failed(w, r, err)
		return
	}
	done(w)
}

// quit is /quitquitquit. The answer leaves before the end begins.
func (s *Server) quit(w http.ResponseWriter, _ *http.Request) {
	done(w)
	_ = http.NewResponseController(w).Flush()
	s.o.View.Quit()
}

// healthFail is /healthcheck/fail, healthOK /healthcheck/ok (AD-13).
func (s *Server) healthFail(w http.ResponseWriter, _ *http.Request) {
	s.o.View.FailHealthCheck(true)
	done(w)
}

func (s *Server) healthOK(w http.ResponseWriter, _ *http.Request) {
	s.o.View.FailHealthCheck(false)
	done(w)
}

// drainListeners is /drain_listeners (AD-14). A parameter counts if it is there,
// whatever its value; skip_exit is graceful by itself.
func (s *Server) drainListeners(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	skip := q.Has("skip_exit")
	s.o.View.DrainListeners(Drain{InboundOnly: q.Has("inboundonly"), Graceful: q.Has("graceful") || skip, SkipExit: skip})
	done(w)
}
