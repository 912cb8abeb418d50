package admin

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/stringmatch"
)

// Options say what a Server serves.
type Options struct {
	View View
	// Levels are what /logging changes, of the components in Components. Without
	// them /logging is refused.
	Levels     Levels
	Components []string
	// AllowPaths are the only paths, with their queries, that are answered; all
	// are if there are none (config/bootstrap/v3 Admin.allow_paths).
	AllowPaths []*matcherv3.StringMatcher
	// ProfilePath is the file of CPU profiles; Envoy's /var/log/envoy/envoy.prof if
	// empty (config/bootstrap/v3 Admin.profile_path).
	ProfilePath string
	// Stats gets the statistics http.admin.* and listener.admin.*.
	Stats *stats.Registry
	// Access is told of each request after it was answered; it may be nil.
	Access func(*Exchange)
	// Logger is told what goes wrong; nobody if nil.
	Logger *slog.Logger
}

// Server answers the admin endpoints. Safe for concurrent use.
type Server struct {
	o      Options
	list   []endpoint
	byPath map[string]*endpoint
	allow  []func(path string) bool
	counts *counts
	calls  calls

	profiler profiler
}

// New makes a server. It starts nothing. An error names the field of
// Options.AllowPaths that is wrong.
func New(o Options) (*Server, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, list: endpoints(), byPath: map[string]*endpoint{}, counts: newCounts(o.Stats), calls: newCalls(o.View)}
	s.profiler.path = cmp.Or(o.ProfilePath, defaultProfilePath)
	for i := range s.list {
		s.byPath[s.list[i].path] = &s.list[i]
	}
	s.byPath[statusPath] = &endpoint{path: statusPath, changes: true, serve: (*Server).clientStatus}
	var errs []error
	for i, m := range o.AllowPaths {
		match, err := stringmatch.Compile(fmt.Sprintf("admin.allow_paths[%d]", i), m)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.allow = append(s.allow, match.Match)
	}
	return s, errors.Join(errs...)
}

// allowed reports whether a path with its query may be asked for.
func (s *Server) allowed(target string) bool {
	return len(s.allow) == 0 || slices.ContainsFunc(s.allow, func(ok func(string) bool) bool { return ok(target) })
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isCall(r) {
		s.call(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", textType)
	h.Set("Cache-Control", "no-cache, max-age=0")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Server", "envoy")
	s.route(w, r)
}

// textType is the media type of everything that is neither JSON nor HTML.
const textType = "text/plain; charset=UTF-8"

func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	target := r.URL.RequestURI()
	if !s.allowed(target) {
		reply(w, http.StatusForbidden, "request to path "+target+" not allowed")
		return
	}
	path, _, _ := strings.Cut(target, "?")
	e := s.byPath[path]
	switch {
	case e == nil:
		reply(w, http.StatusNotFound, "invalid path. "+s.commands())
	case e.changes && r.Method != http.MethodPost:
		reply(w, http.StatusMethodNotAllowed, "Method "+r.Method+" not allowed, POST required.")
	case e.serve == nil:
		reply(w, http.StatusNotImplemented, path+" is known but not built in this version: "+e.instead+"\n")
	default:
		e.serve(s, w, r)
	}
}

// reply writes a text.
func reply(w http.ResponseWriter, status int, text string) {
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}

// done says that something was done.
func done(w http.ResponseWriter) { reply(w, http.StatusOK, "OK\n") }

// failed says that it could not be done.
func (s *Server) failed(w http.ResponseWriter, r *http.Request, err error) {
	s.o.Logger.Error("an admin request failed", slog.String("path", r.URL.Path), slog.Any("error", err))
	reply(w, http.StatusInternalServerError, err.Error()+"\n")
}
