package admin

import (
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/xebec-proxy/xebec/source"
	"github.com/xebec-proxy/xebec/source/file"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

// Sources is what the pages show. Every field is set.
type Sources struct {
	Server *xdsserver.Server
	Source Source
	// Dir is the directory the source reads.
	Dir     string
	Events  *Events
	Loads   *loadreport.Server
	Reloads Reloads
	// Ready reports whether clients get answers.
	Ready func() bool
	// Version is the program's.
	Version string
}

// Source is what the pages need of the file source.
type Source interface {
	Health() source.Health
	Findings() []validate.Finding
	Files() []file.File
	Explain(*xds.Node) (group, reason string)
}

// Reloads counts the source's batches by what became of them.
type Reloads interface {
	Reloads() (applied, refused uint64)
}

// page is one path of the site.
type page struct {
	path, does string
	serve      http.HandlerFunc
}

// New returns the site. The handler is safe for concurrent use.
func New(s Sources) http.Handler {
	a := &site{Sources: s}
	pages := []page{
		{"/healthz", "200 as long as the program runs", a.healthz},
		{"/readyz", "200 once everything has been loaded, 503 before and while stopping", a.readyz},
		{"/metrics", "metrics for Prometheus", a.metrics().ServeHTTP},
		{"/api/v1/clients", "connected clients and what they hold; ?node=ID and ?group=NAME select", a.clients},
		{"/api/v1/clients/{id}", "one client with its resources", a.client},
		{"/api/v1/resources", "resources; ?group=, ?type= and ?name= select, ?body=true shows their content", a.resources},
		{"/api/v1/sources", "the directory, its files and findings", a.sources},
		{"/api/v1/loads", "traffic that clients report (LRS), by cluster", a.loads},
		{"/api/v1/events", "what happened lately; ?after=ID for what is new", a.events},
	}
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.Handle(p.path, readOnly(p.serve))
	}
	mux.Handle("/{$}", readOnly(index(pages, s.Version)))
	mux.Handle("/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var known []string
		for _, p := range pages {
			known = append(known, p.path)
		}
		writeError(w, http.StatusNotFound, fmt.Sprintf("there is no %s; there are %s", r.URL.Path, strings.Join(known, ", ")))
	}))
	return mux
}

type site struct{ Sources }

// readOnly refuses every method but GET and HEAD.
func readOnly(h http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s does not take %s; use GET", r.URL.Path, r.Method))
			return
		}
		h(w, r)
	})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		code, data = http.StatusInternalServerError, []byte(`{"error": "the answer cannot be encoded"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(append(data, '\n')) // a client that has gone needs no answer
}

func writeError(w http.ResponseWriter, code int, msg string) {
	writeJSON(w, code, map[string]string{"error": msg})
}

func writeText(w http.ResponseWriter, code int, msg string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(msg + "\n")) // see writeJSON
}

func (a *site) healthz(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }

func (a *site) readyz(w http.ResponseWriter, _ *http.Request) {
	switch {
	case a.Ready():
		writeText(w, http.StatusOK, "ready")
	case a.Server.Loaded():
		writeText(w, http.StatusServiceUnavailable, "not ready: stopping")
	default:
		msg := "not ready: the directory has not been loaded yet"
		if err := a.Source.Health().Err; err != nil {
			msg += ": " + err.Error()
		}
		writeText(w, http.StatusServiceUnavailable, msg)
	}
}

func (a *site) metrics() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(newCollector(a.Sources), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

const indexPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Xebec</title>
<body style="font-family: sans-serif; max-width: 50em; margin: 2em auto">
<h1>Xebec</h1><p>Version {{.Version}}</p>
<table>{{range .Pages}}<tr><td><a href="{{.Path}}">{{.Path}}</a></td><td>{{.Does}}</td></tr>
{{end}}</table></body></html>
`

func index(pages []page, version string) http.HandlerFunc {
	type row struct{ Path, Does string }
	var rows []row
	for _, p := range pages {
		rows = append(rows, row{p.path, p.does})
	}
	t := template.Must(template.New("index").Parse(indexPage))
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = t.Execute(w, map[string]any{"Pages": slices.Clone(rows), "Version": version}) // see writeJSON
	}
}
