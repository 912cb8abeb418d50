package admin

import (
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"

	"github.com/xebec-proxy/xebec/internal/dataplane/layeredruntime"
)

// runtimeDump is what /runtime shows.
type runtimeDump struct {
	Entries map[string]runtimeEntry `json:"entries"`
	Layers  []string                `json:"layers"`
}

type runtimeEntry struct {
	Final  string   `json:"final_value"`
	Layers []string `json:"layer_values"`
}

// runtime is /runtime (AD-12).
func (s *Server) runtime(w http.ResponseWriter, r *http.Request) {
	now := s.o.View.Runtime()
	d := runtimeDump{Entries: map[string]runtimeEntry{}, Layers: now.Layers()}
	if d.Layers == nil {
		d.Layers = []string{}
	}
	for _, e := range now.Entries() {
		d.Entries[e.Key] = runtimeEntry{e.Final, e.Layers}
	}
	w.Header().Set("Content-Type", jsonType)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	s.sent(enc.Encode(d))
}

const runtimeUsage = "usage: /runtime_modify?key1=value1&key2=value2&keyN=valueN\n" +
	"       or send the parameters as form values\n" +
	"use an empty value to remove a previously added override"

// maxForm bounds the form of /runtime_modify, in bytes.
const maxForm = 1 << 20

// runtimeModify is /runtime_modify. A query wins over a form, as in Envoy.
func (s *Server) runtimeModify(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); len(values) == 0 && kind == "application/x-www-form-urlencoded" {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			reply(w, http.StatusBadRequest, "the form cannot be read: "+err.Error()+"\n")
			return
		}
		values = r.PostForm
	}
	if len(values) == 0 {
		reply(w, http.StatusBadRequest, runtimeUsage)
		return
	}
	switch err := s.o.View.ModifyRuntime(single(values)); {
	case errors.Is(err, layeredruntime.ErrNoAdminLayer):
		reply(w, http.StatusServiceUnavailable, err.Error())
	case err != nil:
		s.failed(w, r, err)
	default:
		done(w)
	}
}

// single takes the last value of each key.
func single(values url.Values) map[string]string {
	out := make(map[string]string, len(values))
	for k, v := range values {
		out[k] = v[len(v)-1]
	}
	return out
}
