package admin

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/dataplane/stats"
	"github.com/xebec-proxy/xebec/internal/redact"
)

// dumpType is the media type of refusals of /config_dump, as Envoy's.
const dumpType = "text/plain"

// configDump is /config_dump (AD-08). Its parameters narrow it down.
func (s *Server) configDump(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	names, err := nameFilter(q.Get("name_regex"))
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	_, endpoints := q["include_eds"]
	dumps, err := s.o.View.Dumps(r.Context(), endpoints)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	for _, d := range dumps {
		redact.Message(d.ProtoReflect())
		keepNamed(d.ProtoReflect(), names)
	}
	mask := fields(q.Get("mask"))
	var shown []proto.Message
	var no *refusal
	if resource := q.Get("resource"); resource != "" {
		shown, no = elements(dumps, resource, mask)
	} else {
		shown, no = masked(dumps, mask, q.Get("mask"))
	}
	if no != nil {
		refuse(w, no.status, no.text)
		return
	}
	out := &adminv3.ConfigDump{}
	for _, m := range shown {
		a, err := anypb.New(m)
		if err != nil {
			s.failed(w, r, err)
			return
		}
		out.Configs = append(out.Configs, a)
	}
	s.json(w, r, out, set)
}

// refusal is an answer other than a dump.
type refusal struct {
	status int
	text   string
}

func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", dumpType)
	reply(w, status, text)
}

func fields(mask string) []string {
	if mask == "" {
		return nil
	}
	return strings.Split(mask, ",")
}

// nameFilter compiles a name_regex, which matches whole names; nil for all.
func nameFilter(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no filter
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("INVALID_ARGUMENT: Error while parsing name_regex from %s: %s", text, stats.RegexError(text, err))
	}
	return regexp.Compile("^(?:" + text + ")$") //nolint:wrapcheck // it compiled above
}

// keepNamed takes the resources with other names out of a dump. The bootstrap
// has no name and stays.
func keepNamed(dump protoreflect.Message, names *regexp.Regexp) {
	if names == nil {
		return
	}
	if _, ok := dump.Interface().(*adminv3.BootstrapConfigDump); ok {
		return
	}
	fds := dump.Descriptor().Fields()
	for i := range fds.Len() {
		fd := fds.Get(i)
		if !fd.IsList() || fd.Message() == nil || !dump.Has(fd) {
			continue
		}
		list := dump.Mutable(fd).List()
		n := 0
		for j := range list.Len() {
			if e := list.Get(j); names.MatchString(nameOf(e.Message())) {
				list.Set(n, e)
				n++
			}
		}
		list.Truncate(n)
	}
}

// nameOf is the name of an element of a dump: its own, or that of the resource
// in it.
func nameOf(m protoreflect.Message) string {
	fds := m.Descriptor().Fields()
	for _, field := range [...]protoreflect.Name{"name", "cluster_name"} {
		if fd := fds.ByName(field); fd != nil && fd.Kind() == protoreflect.StringKind && m.Get(fd).String() != "" {
			return m.Get(fd).String()
		}
	}
	for i := range fds.Len() {
		fd := fds.Get(i)
		if fd.Message() == nil || fd.IsList() || fd.IsMap() || !m.Has(fd) {
			continue
		}
		if a, ok := m.Get(fd).Message().Interface().(*anypb.Any); ok {
			if resource, err := a.UnmarshalNew(); err == nil {
				return nameOf(resource.ProtoReflect())
			}
		}
	}
	return ""
}

// elements are those of a repeated field of a dump, each with the mask applied.
func elements(dumps []proto.Message, resource string, mask []string) ([]proto.Message, *refusal) {
	for _, d := range dumps {
		m := d.ProtoReflect()
		fd := m.Descriptor().Fields().ByName(protoreflect.Name(resource))
		if fd == nil {
			continue
		}
		if !fd.IsList() || fd.Message() == nil {
			return nil, &refusal{http.StatusBadRequest, resource + " is not a repeated field. Use ?mask=" + resource + " to get only this field"}
		}
		var out []proto.Message
		list := m.Get(fd).List()
		for i := range list.Len() {
			e := list.Get(i).Message().Interface()
			if len(mask) > 0 && !trimElement(e.ProtoReflect(), mask) {
				return nil, &refusal{http.StatusBadRequest, fmt.Sprintf("FieldMask %s could not be successfully used.", strings.Join(mask, ","))}
			}
			out = append(out, e)
		}
		return out, nil
	}
	return nil, &refusal{http.StatusNotFound, resource + " not found in config dump"}
}

// masked are the dumps that have the fields of a mask, and only these fields.
func masked(dumps []proto.Message, mask []string, text string) ([]proto.Message, *refusal) {
	if len(mask) == 0 {
		return dumps, nil
	}
	var out []proto.Message
	for _, d := range dumps {
		if validMask(d.ProtoReflect().Descriptor(), mask) {
			trim(d.ProtoReflect(), mask)
			out = append(out, d)
		}
	}
	if len(out) == 0 {
		return nil, &refusal{http.StatusBadRequest, "FieldMask " + text + " could not be successfully applied to any configs."}
	}
	return out, nil
}
