package admin

import (
	"net/http"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
)

// initDump is /init_dump (AD-09). As in Envoy, listeners are all there is to dump,
// and another mask, or one beside theirs, shows nothing.
func (s *Server) initDump(w http.ResponseWriter, r *http.Request) {
	out := &adminv3.UnreadyTargetsDumps{}
	if mask := r.URL.Query().Get("mask"); mask == "" || mask == "listener" {
		out.UnreadyTargetsDumps = s.o.View.Unready()
	}
	s.json(w, r, out, set)
}
