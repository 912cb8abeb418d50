package support

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/envoyproxy/go-control-plane/envoy/annotations"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// values checks the value of a field of which not all are built.
func (w *walk) values(m protoreflect.Message, f *plannedField) {
	if f.oldValues {
		w.deprecatedValue(m, f.fd)
	}
	if !f.limited {
		return
	}
	value := m.Get(f.fd).String()
	if f.fd.Enum() != nil {
		ev := f.fd.Enum().Values().ByNumber(m.Get(f.fd).Enum())
		if ev == nil {
			return // a declared rule says so
		}
		value = string(ev.Name())
	}
	refused := f.only != nil && !slices.Contains(f.only, value)
	for _, e := range f.except {
		refused = refused || strings.EqualFold(e, value)
	}
	if !refused {
		return
	}
	hint := w.catalog.why[f.full+"="+strings.ToUpper(value)]
	if hint == "" && f.only != nil {
		hint = "this version has " + strings.Join(f.only, ", ")
	}
	w.fault(CodeNotBuilt, fmt.Sprintf("known but not built in this version: %s: %s", f.full, value), hint)
}

// special checks what depends on more than one message.
func (w *walk) special(m protoreflect.Message) {
	l, ok := m.Interface().(*listenerv3.Listener)
	if !ok {
		return
	}
	w.place.enter("address")
	w.streamAddress(l.GetAddress())
	w.place.leave()
	w.place.enter("additional_addresses")
	for i, a := range l.GetAdditionalAddresses() {
		w.place.at(i)
		w.place.enter("address")
		w.streamAddress(a.GetAddress())
		w.place.leave()
	}
	w.place.leave()
}

func (w *walk) streamAddress(a *corev3.Address) {
	if a.GetSocketAddress().GetProtocol() != corev3.SocketAddress_UDP {
		return
	}
	w.place.enter("socket_address")
	w.place.enter("protocol")
	w.fault(CodeNotBuilt, "known but not built in this version: listeners on UDP", "listeners take TCP and UNIX sockets")
	w.place.leave()
	w.place.leave()
}

const failOnDeprecated = "envoy.features.fail_on_any_deprecated_feature"

// deprecatedValue is deprecated for the value of an enum.
func (w *walk) deprecatedValue(m protoreflect.Message, fd protoreflect.FieldDescriptor) {
	ev := fd.Enum().Values().ByNumber(m.Get(fd).Enum())
	if ev == nil || !isDeprecated(ev) {
		return
	}
	refused, _ := proto.GetExtension(ev.Options(), annotations.E_DisallowedByDefaultEnum).(bool)
	w.deprecated(string(fd.FullName())+"."+string(ev.Name()), fd, refused)
}

// deprecated counts the use of what is deprecated, and refuses it where the API or
// the runtime does (BS-20).
func (w *walk) deprecated(name string, fd protoreflect.FieldDescriptor, refused bool) {
	w.report.Deprecated++
	w.report.DeprecatedAt = append(w.report.DeprecatedAt, w.place.String())
	text := fmt.Sprintf("Using deprecated option '%s' from file %s", name, path.Base(fd.ParentFile().Path()))
	key := "envoy.deprecated_features:" + name
	allowed, set := w.runtime(key)
	if all, _ := w.runtime(failOnDeprecated); all {
		refused = true
	}
	if refused && (!set || !allowed) {
		w.fault(CodeDeprecatedRefusing, text, fmt.Sprintf("write its successor, or set the runtime key %s to true for a while", key))
		return
	}
	if w.first(name) {
		w.doubt(CodeDeprecated, text, "write its successor")
	}
}
