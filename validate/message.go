package validate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/model"
	"github.com/xebec-proxy/xebec/xds"
)

// Locator finds the place in a file where a field of a resource was written.
// Paths are as in Finding.Path; an empty path is the resource itself.
type Locator interface {
	Position(path string) xds.Position
}

// Message checks one resource, or any other configuration message such as a
// bootstrap: the rules its message type declares, and those Envoy and gRPC
// check in code as far as they are certain, in the message and in every message
// nested in an Any (XS-83, BS-19). A TypedStruct is not looked into.
//
// The findings stand in the order of the fields. name is the resource's name,
// taken from the message if empty; at may be nil.
func Message(m proto.Message, name string, at Locator) []Finding {
	if m == nil || !m.ProtoReflect().IsValid() {
		return nil
	}
	own, named := model.Name(m)
	if name == "" {
		name = own
	}
	full := m.ProtoReflect().Descriptor().FullName()
	c := &checker{typeURL: xds.TypePrefix + string(full), name: name, at: at, v2: isV2(string(full))}
	c.walker = model.Walker{Skip: noRules, Whole: c.constraints, Message: c.message, Any: c.unreadable}
	c.walker.Walk(m)
	if v, ok := m.(*routev3.VirtualHost); ok {
		c.hostOnDemand(v)
	}
	if named && name == "" && !slices.ContainsFunc(c.findings, aboutName) {
		c.add(Error, codeMissingName, "", "the resource has no name", "give it a name; clients ask for resources by name")
	}
	return c.findings
}

// aboutName reports a declared rule that asks for a resource's name.
func aboutName(f Finding) bool {
	return f.Code == codeConstraint && (f.Path == "name" || f.Path == "cluster_name")
}

// checker collects the findings of one resource.
type checker struct {
	typeURL, name string
	at            Locator
	v2            bool
	walker        model.Walker
	findings      []Finding
}

// add adds a finding at a path below the resource.
func (c *checker) add(s Severity, code, path, message, hint string) {
	f := Finding{
		Severity: s, Tier: Schema, Code: code, Type: c.typeURL, Name: c.name,
		Path: path, Message: message, Hint: hint,
	}
	if c.at != nil {
		f.Pos = c.at.Position(path)
	}
	c.findings = append(c.findings, f)
}

// fault adds an error at a path below the message being visited.
func (c *checker) fault(code, path, message, hint string) {
	c.add(Error, code, c.join(path), message, hint)
}

// doubt adds a warning at a path below the message being visited.
func (c *checker) doubt(code, path, message, hint string) {
	c.add(Warning, code, c.join(path), message, hint)
}

// join appends a path to that of the message being visited.
func (c *checker) join(path string) string { return joinPath(c.walker.Path(), path) }

func joinPath(parent, path string) string {
	if parent == "" || path == "" {
		return parent + path
	}
	return parent + "." + path
}

// noRules names messages that hold neither an Any nor anything to check beyond
// the rules checked from outside.
func noRules(message protoreflect.FullName) bool {
	switch message {
	case "google.protobuf.Any":
		return false
	case "envoy.config.core.v3.Address",
		"envoy.config.core.v3.Locality",
		"envoy.config.core.v3.HeaderValueOption",
		"udpa.type.v1.TypedStruct",
		"xds.type.v3.TypedStruct":
		return true
	}
	return strings.HasPrefix(string(message), "google.protobuf.")
}

// unreadable reports an Any that cannot be decoded.
func (c *checker) unreadable(parent protoreflect.Message, a *anypb.Any, err error) {
	path := c.walker.Path()
	url := a.GetTypeUrl()
	if url == "" && len(a.GetValue()) == 0 && parent.Descriptor().FullName() == "envoy.config.route.v3.FilterConfig" {
		return // it turns a filter on that is off by default
	}
	switch {
	case errors.Is(err, model.ErrTooDeep):
		c.add(Error, codeNestedTooDeep, path, err.Error(), "check that the configuration does not hold itself")
	case !errors.Is(err, model.ErrUnknownType):
		c.add(Error, codeUndecodable, path, fmt.Sprintf("the bytes are no %s: %s", strings.TrimPrefix(url, xds.TypePrefix), reason(err)),
			"encode the message again from its source")
	case isV2(strings.TrimPrefix(url, xds.TypePrefix)) && !c.v2:
		c.oldType(path, url)
	default:
		c.unknownType(parent, path, url)
	}
}

// reason is the text of an error of the protobuf library, which varies its
// spaces from build to build.
func reason(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
}

func (c *checker) unknownType(parent protoreflect.Message, path, url string) {
	name := ""
	if fd := parent.Descriptor().Fields().ByName("name"); fd != nil && fd.Kind() == protoreflect.StringKind && !fd.IsList() {
		name = parent.Get(fd).String()
	}
	message := fmt.Sprintf("Didn't find a registered implementation for '%s' with type URL: '%s'", name, url)
	hint := "check the spelling of @type; if it is right, this build does not know the message"
	if url == "" {
		hint = "say with @type which message the configuration is"
	}
	s := Error
	if parent.Descriptor().FullName() == "envoy.config.core.v3.Metadata" {
		// Clients keep metadata of types they do not know.
		s = Warning
	}
	c.add(s, codeUnknownType, path, message, hint)
}

func (c *checker) oldType(path, url string) {
	c.add(Error, codeOldType, path, fmt.Sprintf("the type %s belongs to the v2 API, which is not supported inside v3 resources", url),
		"use the v3 message")
}

// isV2 reports whether a message belongs to the v2 API.
func isV2(message string) bool {
	if !strings.HasPrefix(message, "envoy.") {
		return false
	}
	for part := range strings.SplitSeq(message, ".") {
		if part == "v2" || strings.HasPrefix(part, "v2alpha") {
			return true
		}
	}
	return strings.HasPrefix(message, "envoy.config.filter.")
}
