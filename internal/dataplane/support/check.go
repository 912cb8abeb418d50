package support

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/validate"
)

// Codes of findings.
const (
	CodeNotBuilt           = "not-built"              // a field, a value or an extension that this version lacks
	CodeUnregistered       = "unregistered-extension" // an extension that nobody has
	CodeUndecodable        = "undecodable"            // the bytes in an Any are not what its type URL says
	CodeTooDeep            = "nested-too-deep"
	CodeNoEffect           = "accepted-without-effect"
	CodeSkipped            = "optional-extension-skipped"
	CodeDeprecated         = "deprecated-field"
	CodeDeprecatedRefusing = "deprecated-field-refused"
)

// Runtime answers for features that are switched by runtime keys: the value of
// a boolean key, and whether it is set.
type Runtime func(key string) (value, ok bool)

// Report is what a check found.
type Report struct {
	// Findings are the errors and the warnings, in the order of the fields.
	Findings []validate.Finding
	// Skipped are the paths of optional extensions that were taken out because
	// this build lacks them, as they were before anything was taken out.
	Skipped []string
	// Deprecated counts the uses of deprecated fields and values (BS-20), which
	// are at the paths of DeprecatedAt.
	Deprecated   int
	DeprecatedAt []string
	// Unknown says, for each message with fields that nobody knows, which
	// message it is and the numbers of those fields, by its path (BS-17).
	Unknown []UnknownFields
}

// UnknownFields are those of a message.
type UnknownFields struct {
	Path string
	// What is Envoy's text: "type T with unknown field set {N, …}".
	What string
}

// Check looks for what is not built in a message, such as a bootstrap or a
// listener, and in every message nested in an Any. Optional HTTP filters that
// are not built are taken out of m, as are optional per-filter settings; m is
// changed in no other way. at may be nil, and so may runtime.
func (c *Catalog) Check(m proto.Message, at validate.Locator, runtime Runtime) Report {
	if m == nil || !m.ProtoReflect().IsValid() {
		return Report{}
	}
	if runtime == nil {
		runtime = func(string) (bool, bool) { return false, false }
	}
	w := &walk{catalog: c, at: at, runtime: runtime, warned: map[string]bool{}}
	w.message(m.ProtoReflect(), "")
	return w.report
}

// walk is the state of one check.
type walk struct {
	catalog *Catalog
	at      validate.Locator
	runtime Runtime
	report  Report
	warned  map[string]bool // fields that were warned of: once each
	depth   int
	place   place
	key     string // of the map entry that is looked into: settings have no other name
}

// maxDepth bounds how deep messages can nest.
const maxDepth = 200

func (w *walk) add(s validate.Severity, code, message, hint string) {
	f := validate.Finding{Severity: s, Tier: validate.Schema, Code: code, Path: w.place.String(), Message: message, Hint: hint}
	if w.at != nil {
		f.Pos = w.at.Position(f.Path)
	}
	w.report.Findings = append(w.report.Findings, f)
}

// fault reports an error where the walk is.
func (w *walk) fault(code, message, hint string) { w.add(validate.Error, code, message, hint) }

// doubt reports a warning where the walk is.
func (w *walk) doubt(code, message, hint string) { w.add(validate.Warning, code, message, hint) }

// first reports the first time that a field is to be warned of.
func (w *walk) first(where string) bool {
	was := w.warned[where]
	w.warned[where] = true
	return !was
}

// message checks a message that was reached through a field whose extensions
// are those of slot, and reports whether it was changed.
func (w *walk) message(m protoreflect.Message, slot string) (changed bool) {
	p := w.catalog.planOf(m.Descriptor())
	switch {
	case p.any:
		return w.any(m, nil, slot)
	case p.value:
		return false
	}
	if w.depth++; w.depth > maxDepth {
		w.fault(CodeTooDeep, "messages nest too deep to be real", "check that the configuration does not hold itself")
		w.depth--
		return false
	}
	defer func() { w.depth-- }()
	w.unknown(m)
	w.missing(m, p, slot)
	w.special(m)
	for i := range p.fields {
		if f := &p.fields[i]; m.Has(f.fd) {
			w.place.enter(f.name)
			changed = w.field(m, f, slot) || changed
			w.place.leave()
		}
	}
	return changed
}

func (w *walk) unknown(m protoreflect.Message) {
	raw := m.GetUnknown()
	if len(raw) == 0 {
		return
	}
	var numbers []string
	for len(raw) > 0 && len(numbers) < maxUnknown {
		num, _, n := protowire.ConsumeField(raw)
		if n < 0 {
			break
		}
		if s := strconv.Itoa(int(num)); !slices.Contains(numbers, s) {
			numbers = append(numbers, s)
		}
		raw = raw[n:]
	}
	w.report.Unknown = append(w.report.Unknown, UnknownFields{
		w.place.String(),
		fmt.Sprintf("type %s with unknown field set {%s}", m.Descriptor().FullName(), strings.Join(numbers, ", ")),
	})
}

// maxUnknown bounds the numbers of fields that are told of one message.
const maxUnknown = 16

// isWellKnown reports a message of protobuf itself, which is a value.
func isWellKnown(name protoreflect.FullName) bool { return name.Parent() == "google.protobuf" }

// field checks a field that is set.
func (w *walk) field(m protoreflect.Message, f *plannedField, inherited string) (changed bool) {
	if !f.built {
		w.fault(CodeNotBuilt, "known but not built in this version: "+f.full, w.catalog.why[f.full])
		return false
	}
	if f.noop && w.first(f.full) {
		w.doubt(CodeNoEffect, "accepted without effect: "+f.full, "")
	}
	if f.deprecated {
		w.deprecated(f.full, f.fd, f.disallowed)
	}
	if f.noop {
		return false
	}
	w.values(m, f)
	slot := f.slot
	if slot == "" {
		slot = inherited
	}
	switch f.shape {
	case messages:
		return w.list(m, f.fd, slot)
	case entries:
		return w.entries(m, f.fd, slot)
	case single:
	default:
		return false
	}
	v := m.Get(f.fd).Message()
	switch {
	case f.full == "envoy.config.route.v3.FilterConfig.config" && proto.Size(v.Interface()) == 0:
		return false // it turns a filter on that is off by default (HF-11)
	case f.any:
		return w.any(v, m, slot)
	}
	return w.message(v, slot)
}
