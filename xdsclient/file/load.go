package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/filewatch"
	"github.com/xebec-proxy/xebec/xds"
)

// loaded is what a reading led to.
type loaded struct {
	content []byte // a DiscoveryResponse
	err     error
	// unreadable says that err is about a file and not about its content.
	unreadable bool
	// needs are what to watch, with an error too.
	needs filewatch.Needs
}

func (l *loaded) fail(unreadable bool, format string, args ...any) {
	if l.err == nil {
		l.err, l.unreadable = fmt.Errorf(format, args...), unreadable
	}
}

// load reads the file.
func (t *Transport) load(typ xds.Type) loaded {
	l := loaded{}
	l.needs.File(t.cfg.Path)
	l.needs.Dir(t.cfg.WatchedDirectory)
	data, err := os.ReadFile(t.cfg.Path)
	if err != nil {
		l.fail(true, "the file cannot be read: %w", err)
		return l
	}
	r := &discoveryv3.DiscoveryResponse{}
	if t.cfg.Collection {
		r, err = t.collection(data, typ)
	} else {
		err = t.message(data, r)
	}
	if err != nil {
		l.fail(false, "%w", err)
		return l
	}
	if r.GetTypeUrl() != "" && r.GetTypeUrl() != typ.URL {
		l.fail(false, "%s: type_url is %q, but the file is used for %s", t.cfg.Path, r.GetTypeUrl(), typ.URL)
		return l
	}
	r.TypeUrl = typ.URL
	if typ.URL == xds.SecretType && !t.cfg.KeepFileNames {
		for i, res := range r.GetResources() {
			t.secret(&l, res, i)
		}
	}
	if l.content, err = (proto.MarshalOptions{Deterministic: true}).Marshal(r); err != nil {
		l.fail(false, "%s: %w", t.cfg.Path, err)
	}
	return l
}

// message reads one message in the format of the file's suffix (XF-01).
func (t *Transport) message(data []byte, into proto.Message) error {
	// Envoy takes unknown fields in what is loaded while it runs.
	loader := configload.Loader{Types: t.cfg.Types, AllowUnknownFields: true}
	_, problems := loader.Message(t.cfg.Path, data, into)
	var all []error
	for _, p := range problems {
		all = append(all, p)
	}
	return errors.Join(all...)
}

// collection reads a Resource that holds a list collection (XF-07).
func (t *Transport) collection(data []byte, typ xds.Type) (*discoveryv3.DiscoveryResponse, error) {
	var outer discoveryv3.Resource
	if err := t.message(data, &outer); err != nil {
		return nil, err
	}
	if outer.GetResource() == nil {
		return nil, fmt.Errorf("%s: resource: there is none; it should hold a list collection", t.cfg.Path)
	}
	m, err := outer.GetResource().UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("%s: resource: %w", t.cfg.Path, err)
	}
	entries, ok := entriesOf(m.ProtoReflect())
	if !ok {
		return nil, fmt.Errorf("%s: resource: %s is no list collection", t.cfg.Path, outer.GetResource().GetTypeUrl())
	}
	r := &discoveryv3.DiscoveryResponse{VersionInfo: outer.GetVersion()}
	for i, e := range entries {
		if e.GetInlineEntry() == nil {
			return nil, fmt.Errorf("%s: resource.entries[%d]: only inline entries are supported in files, no locators", t.cfg.Path, i)
		}
		in := e.GetInlineEntry()
		if in.GetResource().GetTypeUrl() != typ.URL {
			return nil, fmt.Errorf("%s: resource.entries[%d]: type %q in a collection that is used for %s",
				t.cfg.Path, i, in.GetResource().GetTypeUrl(), typ.URL)
		}
		res := in.GetResource()
		if v := in.GetVersion(); v != "" {
			if res, err = anypb.New(&discoveryv3.Resource{Version: v, Resource: res}); err != nil {
				return nil, fmt.Errorf("%s: resource.entries[%d]: %w", t.cfg.Path, i, err)
			}
		}
		r.Resources = append(r.Resources, res)
	}
	return r, nil
}

// entriesOf are those of a list collection; a ClusterCollection has room for one.
func entriesOf(m protoreflect.Message) (out []*xdscorev3.CollectionEntry, ok bool) {
	field := m.Descriptor().Fields().ByName("entries")
	want := (&xdscorev3.CollectionEntry{}).ProtoReflect().Descriptor().FullName()
	if field == nil || field.Message() == nil || field.Message().FullName() != want {
		return nil, false
	}
	add := func(v protoreflect.Value) {
		if e, ok := v.Message().Interface().(*xdscorev3.CollectionEntry); ok {
			out = append(out, e)
		}
	}
	switch {
	case !field.IsList() && m.Has(field):
		add(m.Get(field))
	case field.IsList():
		for i := range m.Get(field).List().Len() {
			add(m.Get(field).List().Get(i))
		}
	}
	return out, true
}

// secret puts what is in the files that a secret names in their place, and notes
// them as files to watch (XF-06).
func (t *Transport) secret(l *loaded, res *anypb.Any, i int) {
	inner := res
	var wrapper *discoveryv3.Resource
	if res.MessageIs((*discoveryv3.Resource)(nil)) {
		wrapper = &discoveryv3.Resource{}
		if err := res.UnmarshalTo(wrapper); err != nil || wrapper.GetResource() == nil {
			return // whoever reads the response says so
		}
		inner = wrapper.GetResource()
	}
	if inner.GetTypeUrl() != xds.SecretType {
		return
	}
	m, err := inner.UnmarshalNew()
	if err != nil {
		l.fail(false, "%s: resources[%d]: %w", t.cfg.Path, i, err)
		return
	}
	if !l.inline(m.ProtoReflect()) {
		return
	}
	if inner.Value, err = (proto.MarshalOptions{Deterministic: true}).Marshal(m); err != nil {
		l.fail(false, "%s: resources[%d]: %w", t.cfg.Path, i, err)
		return
	}
	if wrapper != nil {
		if err := res.MarshalFrom(wrapper); err != nil {
			l.fail(false, "%s: resources[%d]: %w", t.cfg.Path, i, err)
		}
	}
}

// inline goes through a message. It reports whether it has changed something.
func (l *loaded) inline(m protoreflect.Message) (changed bool) {
	switch v := m.Interface().(type) {
	case *corev3.DataSource:
		return l.dataSource(v)
	case *corev3.WatchedDirectory:
		l.needs.Dir(v.GetPath())
		return false
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() && f.MapValue().Message() != nil:
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				changed = l.inline(v.Message()) || changed
				return true
			})
		case f.IsMap() || f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				changed = l.inline(v.List().Get(i).Message()) || changed
			}
		default:
			changed = l.inline(v.Message()) || changed
		}
		return true
	})
	return changed
}

func (l *loaded) dataSource(d *corev3.DataSource) bool {
	l.needs.Dir(d.GetWatchedDirectory().GetPath())
	name := d.GetFilename()
	if name == "" {
		return false
	}
	l.needs.File(name)
	data, err := os.ReadFile(name)
	if err != nil {
		l.fail(true, "the file %s, which a secret names, cannot be read: %w", filepath.Clean(name), err)
		return false
	}
	d.Specifier = &corev3.DataSource_InlineBytes{InlineBytes: data}
	return true
}
