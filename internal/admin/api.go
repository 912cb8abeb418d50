package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xebec-proxy/xebec/internal/redact"
	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsserver"
)

// The types below are the schema of the JSON pages. Fields are added, never
// renamed or removed.

type nodeJSON struct {
	ID        string          `json:"id"`
	Cluster   string          `json:"cluster"`
	Region    string          `json:"region,omitempty"`
	Zone      string          `json:"zone,omitempty"`
	SubZone   string          `json:"sub_zone,omitempty"`
	UserAgent string          `json:"user_agent,omitempty"`
	Version   string          `json:"version,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

type clientJSON struct {
	ID   uint64   `json:"id"`
	Node nodeJSON `json:"node"`
	// GroupReason says why the client is in its group.
	Group       string                 `json:"group"`
	GroupReason string                 `json:"group_reason"`
	Peer        string                 `json:"peer"`
	Variant     string                 `json:"variant"`
	Aggregated  bool                   `json:"aggregated"`
	Connected   time.Time              `json:"connected"`
	Types       []xdsserver.TypeStatus `json:"types"`
	// Resources is on the page of a single client only.
	Resources []xdsserver.ResourceStatus `json:"resources,omitempty"`
}

type resourceJSON struct {
	Group   string          `json:"group"`
	TypeURL string          `json:"type_url"`
	Name    string          `json:"name"`
	Aliases []string        `json:"aliases,omitempty"`
	Version string          `json:"version"`
	Updated time.Time       `json:"updated,omitzero"`
	Origin  xds.Position    `json:"origin,omitzero"`
	Bytes   int             `json:"bytes"`
	Body    json.RawMessage `json:"body,omitempty"`
}

type fileJSON struct {
	Path      string    `json:"path"`
	Loaded    time.Time `json:"loaded,omitzero"`
	Resources int       `json:"resources"`
	Groups    []string  `json:"groups"`
	Error     string    `json:"error,omitempty"`
}

type sourceJSON struct {
	Kind        string             `json:"kind"`
	Dir         string             `json:"dir"`
	Loaded      bool               `json:"loaded"`
	LastGood    time.Time          `json:"last_good,omitzero"`
	LastAttempt time.Time          `json:"last_attempt,omitzero"`
	Error       string             `json:"error,omitempty"`
	Files       []fileJSON         `json:"files"`
	Findings    []validate.Finding `json:"findings"`
}

func (a *site) clients(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	list := []clientJSON{}
	for _, c := range a.Server.Clients() {
		if q.Has("node") && (c.Node == nil || c.Node.ID != q.Get("node")) || q.Has("group") && c.Group != q.Get("group") {
			continue
		}
		list = append(list, a.describe(c))
	}
	writeJSON(w, http.StatusOK, map[string]any{"clients": list})
}

func (a *site) client(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		writeError(w, http.StatusBadRequest, fmt.Sprintf("%q is no client's number; /api/v1/clients lists them", r.PathValue("id")))
		return
	}
	all := a.Server.Clients()
	i := slices.IndexFunc(all, func(c xdsserver.Client) bool { return c.ID == id })
	if i < 0 {
		writeError(w, http.StatusNotFound, fmt.Sprintf("there is no client %d; /api/v1/clients lists them", id))
		return
	}
	c := a.describe(all[i])
	for _, t := range c.Types {
		c.Resources = append(c.Resources, a.Server.Resources(id, t.TypeURL)...)
	}
	writeJSON(w, http.StatusOK, c)
}

func (a *site) describe(c xdsserver.Client) clientJSON {
	out := clientJSON{
		ID: c.ID, Group: c.Group, Peer: c.Peer, Variant: c.Variant, Aggregated: c.Aggregated,
		Connected: c.Connected.UTC(), Types: append([]xdsserver.TypeStatus{}, c.Types...),
	}
	_, out.GroupReason = a.Source.Explain(c.Node)
	if n := c.Node; n != nil {
		out.Node = nodeJSON{
			ID: n.ID, Cluster: n.Cluster, Region: n.Region, Zone: n.Zone, SubZone: n.SubZone,
			UserAgent: n.UserAgent, Version: cmp.Or(n.Version, n.BuildVersion),
		}
		if n.Metadata != nil {
			if data, err := protojson.Marshal(n.Metadata); err == nil {
				out.Node.Metadata = data
			}
		}
	}
	return out
}

func (a *site) resources(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	typeURL := q.Get("type")
	if t, ok := xds.LookupType(typeURL); ok {
		typeURL = t.URL
	}
	list := []resourceJSON{}
	for _, group := range a.Server.Groups() {
		view := a.Server.Snapshot(group)
		if view == nil || q.Has("group") && group != q.Get("group") {
			continue
		}
		for _, t := range view.TypeURLs() {
			if typeURL != "" && t != typeURL {
				continue
			}
			for _, res := range view.Set(t).All() {
				if !q.Has("name") || res.Name() == q.Get("name") {
					list = append(list, describeResource(group, res, q.Get("body") == "true"))
				}
			}
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"resources": list})
}

func describeResource(group string, r *xds.Resource, body bool) resourceJSON {
	out := resourceJSON{
		Group: group, TypeURL: r.TypeURL(), Name: r.Name(), Aliases: r.Aliases(), Version: r.Version(),
		Updated: r.Updated(), Origin: r.Origin(), Bytes: len(r.Body()),
	}
	if body {
		out.Body = bodyOf(r)
	}
	return out
}

// bodyOf is a resource's content as JSON, without its secrets. What cannot be
// decoded is left out, because it cannot be searched for secrets.
func bodyOf(r *xds.Resource) json.RawMessage {
	m, err := r.Message()
	if r.BodyType() == xds.CollectionType(r.TypeURL()) { // of which some messages have room for one entry
		m = &listenerv3.ListenerCollection{}
		err = proto.Unmarshal(r.Body(), m)
	}
	if err != nil {
		return nil
	}
	redact.Message(m.ProtoReflect())
	data, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return nil
	}
	return data
}

func (a *site) sources(w http.ResponseWriter, _ *http.Request) {
	h := a.Source.Health()
	s := sourceJSON{
		Kind: "file", Dir: a.Dir, Loaded: h.Loaded, LastGood: h.LastGood.UTC(), LastAttempt: h.LastAttempt.UTC(),
		Error: message(h.Err), Files: []fileJSON{}, Findings: append([]validate.Finding{}, a.Source.Findings()...),
	}
	for _, f := range a.Source.Files() {
		s.Files = append(s.Files, fileJSON{
			Path: f.Path, Loaded: f.Loaded.UTC(), Resources: f.Resources,
			Groups: append([]string{}, f.Groups...), Error: message(f.Err),
		})
	}
	writeJSON(w, http.StatusOK, map[string]any{"sources": []sourceJSON{s}})
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func (a *site) events(w http.ResponseWriter, r *http.Request) {
	var after uint64
	if v := r.URL.Query().Get("after"); v != "" {
		var err error
		if after, err = strconv.ParseUint(v, 10, 64); err != nil {
			writeError(w, http.StatusBadRequest, fmt.Sprintf("after=%q is no event's number", v))
			return
		}
	}
	writeJSON(w, http.StatusOK, map[string]any{"events": a.Events.After(after)})
}
