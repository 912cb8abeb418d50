package xds

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
)

// maxAlternatives bounds how deep alternatives of alternatives nest.
const maxAlternatives = 8

// Locator is a URN with the directives that tell a client how to use it, as in
// xds/core/v3/resource_locator.proto. Only its URN goes on the wire (XN-02).
type Locator struct {
	URN URN
	// Alt is where to ask if the URN's authority cannot be reached; nil for
	// nowhere.
	Alt *Locator
	// Entry names an inline entry of the list collection that URN names; empty
	// for the collection itself.
	Entry string
}

// ParseLocator reads a URN with an optional "#alt=...,entry=..." part. It
// refuses what [ParseURN] refuses except directives, unknown directives, a
// directive given twice, and alternatives nested more than 8 deep.
func ParseLocator(s string) (Locator, error) {
	l, err := parseLocator(s, 0)
	if err != nil {
		return Locator{}, fmt.Errorf("resource locator %q: %w", s, err)
	}
	return l, nil
}

func parseLocator(s string, depth int) (Locator, error) {
	if depth > maxAlternatives {
		return Locator{}, fmt.Errorf("alternatives are nested more than %d deep", maxAlternatives)
	}
	name, fragment, has := strings.Cut(s, "#")
	u, err := parseURN(name)
	if err != nil {
		return Locator{}, err
	}
	l := Locator{URN: u}
	if !has {
		return l, nil
	}
	if strings.Contains(fragment, "#") {
		return Locator{}, errors.New("has a second #; write it as %23 inside a directive")
	}
	for d := range strings.SplitSeq(fragment, ",") {
		if err := l.addDirective(d, depth); err != nil {
			return Locator{}, fmt.Errorf("directive %q: %w", d, err)
		}
	}
	return l, nil
}

func (l *Locator) addDirective(d string, depth int) error {
	key, raw, _ := strings.Cut(d, "=")
	value, err := unescape(raw)
	if err != nil {
		return err
	}
	switch key {
	case "alt":
		alt, err := parseLocator(value, depth+1)
		if err != nil {
			return err
		}
		return l.setAlt(alt)
	case "entry":
		return l.setEntry(value)
	}
	return errors.New("is unknown; the directives are alt=<locator> and entry=<name>")
}

func (l *Locator) setAlt(alt Locator) error {
	if l.Alt != nil {
		return errors.New("alt occurs twice; nest a further alternative inside the first one")
	}
	l.Alt = &alt
	return nil
}

func (l *Locator) setEntry(name string) error {
	if l.Entry != "" {
		return errors.New("entry occurs twice; give it once")
	}
	if !entryName(name) {
		return badEntryName(name)
	}
	l.Entry = name
	return nil
}

// entryName reports whether an entry of a list collection can have a name.
func entryName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r > '~' || !unreserved(byte(r)) && r != '/' && r != ':'
	})
}

func badEntryName(name string) error {
	return fmt.Errorf("entry %q must be one or more letters, digits or characters of \"_-./~:\" only", name)
}

// String is the canonical form, which [ParseLocator] reads back.
func (l Locator) String() string {
	var b strings.Builder
	b.WriteString(l.URN.String())
	sep := byte('#')
	if l.Alt != nil {
		b.WriteByte(sep)
		b.WriteString("alt=")
		escape(&b, l.Alt.String(), rawInDirective)
		sep = ','
	}
	if l.Entry != "" {
		b.WriteByte(sep)
		b.WriteString("entry=")
		escape(&b, l.Entry, rawInDirective)
	}
	return b.String()
}

// LocatorFromProto converts and validates the protocol's message. Only the
// scheme XDSTP names resources; HTTP and FILE locators are refused.
func LocatorFromProto(p *xdscorev3.ResourceLocator) (Locator, error) {
	l, err := locatorFromProto(p, 0)
	if err != nil {
		return Locator{}, fmt.Errorf("xds.core.v3.ResourceLocator: %w", err)
	}
	return l, nil
}

func locatorFromProto(p *xdscorev3.ResourceLocator, depth int) (Locator, error) {
	if depth > maxAlternatives {
		return Locator{}, fmt.Errorf("alternatives are nested more than %d deep", maxAlternatives)
	}
	if p.GetScheme() != xdscorev3.ResourceLocator_XDSTP {
		return Locator{}, fmt.Errorf("scheme %v is not supported; use XDSTP", p.GetScheme())
	}
	l := Locator{URN: URN{
		Authority: p.GetAuthority(), Type: p.GetResourceType(), ID: p.GetId(),
		Params: maps.Clone(p.GetExactContext().GetParams()),
	}}
	if err := l.URN.Validate(); err != nil {
		return Locator{}, err
	}
	for i, d := range p.GetDirectives() {
		if err := l.addProtoDirective(d, depth); err != nil {
			return Locator{}, fmt.Errorf("directives[%d]: %w", i, err)
		}
	}
	return l, nil
}

func (l *Locator) addProtoDirective(d *xdscorev3.ResourceLocator_Directive, depth int) error {
	switch v := d.GetDirective().(type) {
	case *xdscorev3.ResourceLocator_Directive_Alt:
		alt, err := locatorFromProto(v.Alt, depth+1)
		if err != nil {
			return fmt.Errorf("alt: %w", err)
		}
		return l.setAlt(alt)
	case *xdscorev3.ResourceLocator_Directive_Entry:
		return l.setEntry(v.Entry)
	}
	return errors.New("is empty; set alt or entry")
}

// Proto is the locator as the protocol's message.
func (l Locator) Proto() *xdscorev3.ResourceLocator {
	p := &xdscorev3.ResourceLocator{
		Scheme: xdscorev3.ResourceLocator_XDSTP, Authority: l.URN.Authority, ResourceType: l.URN.Type, Id: l.URN.ID,
	}
	if c := l.URN.contextParams(); c != nil {
		p.ContextParamSpecifier = &xdscorev3.ResourceLocator_ExactContext{ExactContext: c}
	}
	if l.Alt != nil {
		p.Directives = append(p.Directives, &xdscorev3.ResourceLocator_Directive{
			Directive: &xdscorev3.ResourceLocator_Directive_Alt{Alt: l.Alt.Proto()},
		})
	}
	if l.Entry != "" {
		p.Directives = append(p.Directives, &xdscorev3.ResourceLocator_Directive{
			Directive: &xdscorev3.ResourceLocator_Directive_Entry{Entry: l.Entry},
		})
	}
	return p
}
