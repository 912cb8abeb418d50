package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/cluster"
	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
)

// clusters is /clusters (AD-06).
func (s *Server) clusters(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var filter *regexp.Regexp
	if text := q.Get("filter"); text != "" {
		var err error
		if filter, err = regexp.Compile(text); err != nil {
			reply(w, http.StatusBadRequest, "Invalid re2 regex")
			return
		}
	}
	views, err := s.o.View.Clusters(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	shown := views[:0:0]
	for _, v := range views {
		if filter == nil || filter.MatchString(v.Name) {
			shown = append(shown, v)
		}
	}
	if q.Get("format") == "json" {
		w.Header().Set("Content-Type", jsonType)
		err = cluster.RenderJSON(w, shown)
	} else {
		err = cluster.RenderText(w, shown)
	}
	s.sent(err)
}

// sent takes note of an answer that did not reach the client.
func (s *Server) sent(err error) {
	if err != nil {
		s.o.Logger.Debug("an admin answer was not sent", "error", err)
	}
}

// listeners is /listeners (AD-07).
func (s *Server) listeners(w http.ResponseWriter, r *http.Request) {
	list := s.o.View.Listeners()
	if r.URL.Query().Get("format") == "json" {
		s.json(w, r, &adminv3.Listeners{ListenerStatuses: list}, set)
		return
	}
	var b strings.Builder
	for _, l := range list {
		fmt.Fprintf(&b, "%s::%s\n", l.GetName(), address(l.GetLocalAddress()))
		for _, more := range l.GetAdditionalLocalAddresses() {
			fmt.Fprintf(&b, "%s::%s\n", l.GetName(), address(more))
		}
	}
	reply(w, http.StatusOK, b.String())
}

// address is an address as Envoy prints it.
func address(a *corev3.Address) string {
	if p := a.GetPipe(); p != nil {
		return p.GetPath()
	}
	ip := a.GetSocketAddress().GetAddress()
	if strings.Contains(ip, ":") {
		ip = "[" + ip + "]"
	}
	return fmt.Sprintf("%s:%d", ip, a.GetSocketAddress().GetPortValue())
}

// stats is /stats (AD-04).
func (s *Server) stats(w http.ResponseWriter, r *http.Request) {
	o, err := stats.ParseOptions(r.URL.Query())
	s.statistics(w, r, o, err)
}

// prometheus is /stats/prometheus (AD-05).
func (s *Server) prometheus(w http.ResponseWriter, r *http.Request) {
	o, err := stats.ParsePrometheusOptions(r.URL.Query())
	s.statistics(w, r, o, err)
}

func (s *Server) statistics(w http.ResponseWriter, r *http.Request, o stats.RenderOptions, err error) {
	if err != nil {
		reply(w, http.StatusBadRequest, err.Error())
		return
	}
	snap, err := s.o.View.Statistics(r.Context())
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", o.ContentType())
	s.sent(stats.Render(w, snap, o))
}
