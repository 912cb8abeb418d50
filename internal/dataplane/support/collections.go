package support

import (
	"cmp"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// list checks the elements of a list and takes the optional ones out that are
// not built.
func (w *walk) list(m protoreflect.Message, fd protoreflect.FieldDescriptor, slot string) (changed bool) {
	l := m.Mutable(fd).List()
	kept := 0
	for i := range l.Len() {
		w.place.at(i)
		if f, ok := l.Get(i).Message().Interface().(*hcmv3.HttpFilter); ok && w.skips(f.GetIsOptional(), f.GetTypedConfig(), f.GetName(), slot) {
			continue
		}
		changed = w.message(l.Get(i).Message(), slot) || changed
		if kept != i {
			l.Set(kept, l.Get(i))
		}
		kept++
	}
	if kept < l.Len() {
		l.Truncate(kept)
		changed = true
	}
	return changed
}

// entries checks the values of a map, in the order of its keys.
func (w *walk) entries(m protoreflect.Message, fd protoreflect.FieldDescriptor, slot string) (changed bool) {
	entries := m.Mutable(fd).Map()
	keys := make([]protoreflect.MapKey, 0, entries.Len())
	for k := range entries.Range {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return cmp.Compare(a.String(), b.String()) })
	defer func(outer string) { w.key = outer }(w.key)
	for _, k := range keys {
		w.key = k.String()
		w.place.atKey(w.key)
		v := entries.Get(k).Message()
		if a, ok := v.Interface().(*anypb.Any); ok {
			if w.skipsSetting(a, w.key, slot) {
				entries.Clear(k)
				changed = true
				continue
			}
			changed = w.anyNamed(a, w.key, slot) || changed
			continue
		}
		changed = w.message(v, slot) || changed
	}
	return changed
}

// skipsSetting reports an optional setting of a filter that is not built.
func (w *walk) skipsSetting(a *anypb.Any, name, slot string) bool {
	var c routev3.FilterConfig
	if a.MessageName() != "envoy.config.route.v3.FilterConfig" || a.UnmarshalTo(&c) != nil {
		return false
	}
	return w.skips(c.GetIsOptional(), c.GetConfig(), name, slot)
}

// skips reports an optional extension that is not built, and warns of it
// (BS-15). One without a configuration, or with a broken one, is not skipped.
func (w *walk) skips(optional bool, config *anypb.Any, name, slot string) bool {
	if !optional || config == nil || proto.Size(config) == 0 {
		return false
	}
	_, refusal := w.catalog.resolve(config, name, slot)
	if refusal == nil {
		return false
	}
	w.report.Skipped = append(w.report.Skipped, w.place.String())
	w.doubt(CodeSkipped, "skipped because it is optional: "+refusal.message, "")
	return true
}
