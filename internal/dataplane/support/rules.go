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
	"google.golang.org/protobuf/types/descriptorpb"
)

// values checks the values of a field of which not all are built.
func (w *walk) values(m protoreflect.Message, fd protoreflect.FieldDescriptor, f field, at string) {
	w.deprecatedValue(m, fd, at)
	if f.only == nil && f.except == nil || fd.IsList() || fd.IsMap() {
		return
	}
	value := m.Get(fd).String()
	if fd.Enum() != nil {
		ev := fd.Enum().Values().ByNumber(m.Get(fd).Enum())
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
	where := string(fd.FullName())
	hint := w.catalog.why[where+"="+strings.ToUpper(value)]
	if hint == "" && f.only != nil {
		hint = "this version has " + strings.Join(f.only, ", ")
	}
	w.fault(CodeNotBuilt, at, fmt.Sprintf("known but not built in this version: %s: %s", where, value), hint)
}

// special checks what depends on more than one message.
func (w *walk) special(m protoreflect.Message, at string) {
	l, ok := m.Interface().(*listenerv3.Listener)
	if !ok {
		return
	}
	w.streamAddress(l.GetAddress(), join(at, "address"))
	for i, a := range l.GetAdditionalAddresses() {
		w.streamAddress(a.GetAddress(), join(at, fmt.Sprintf("additional_addresses[%d].address", i)))
	}
}

func (w *walk) streamAddress(a *corev3.Address, at string) {
	if a.GetSocketAddress().GetProtocol() == corev3.SocketAddress_UDP {
		w.fault(CodeNotBuilt, join(at, "socket_address.protocol"), "known but not built in this version: listeners on UDP",
			"listeners take TCP and UNIX sockets")
	}
}

const failOnDeprecated = "envoy.features.fail_on_any_deprecated_feature"

// deprecatedField counts the use of a deprecated field, and refuses it where
// the API or the runtime does (BS-20).
func (w *walk) deprecatedField(fd protoreflect.FieldDescriptor, at string) {
	o, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok || !o.GetDeprecated() {
		return
	}
	refused, _ := proto.GetExtension(o, annotations.E_DisallowedByDefault).(bool)
	w.deprecated(string(fd.FullName()), fd, refused, at)
}

func (w *walk) deprecatedValue(m protoreflect.Message, fd protoreflect.FieldDescriptor, at string) {
	if fd.Enum() == nil || fd.IsList() || fd.IsMap() {
		return
	}
	ev := fd.Enum().Values().ByNumber(m.Get(fd).Enum())
	if ev == nil {
		return
	}
	o, ok := ev.Options().(*descriptorpb.EnumValueOptions)
	if !ok || !o.GetDeprecated() {
		return
	}
	refused, _ := proto.GetExtension(o, annotations.E_DisallowedByDefaultEnum).(bool)
	w.deprecated(string(fd.FullName())+"."+string(ev.Name()), fd, refused, at)
}

func (w *walk) deprecated(name string, fd protoreflect.FieldDescriptor, refused bool, at string) {
	w.report.Deprecated++
	w.report.DeprecatedAt = append(w.report.DeprecatedAt, at)
	text := fmt.Sprintf("Using deprecated option '%s' from file %s", name, path.Base(fd.ParentFile().Path()))
	key := "envoy.deprecated_features:" + name
	allowed, set := w.runtime(key)
	if all, _ := w.runtime(failOnDeprecated); all {
		refused = true
	}
	if refused && (!set || !allowed) {
		w.fault(CodeDeprecatedRefusing, at, text, fmt.Sprintf("write its successor, or set the runtime key %s to true for a while", key))
		return
	}
	if w.first(name) {
		w.doubt(CodeDeprecated, at, text, "write its successor")
	}
}
