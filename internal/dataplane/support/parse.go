package support

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// parser reads one table into a catalog.
type parser struct {
	catalog *Catalog
	classes *classifier
	file    string
	pkg     string
	slot    *slot
}

func (p *parser) parse(text string) error {
	logical, number := "", 0
	flush := func() error {
		if logical == "" {
			return nil
		}
		err := p.line(logical)
		logical = ""
		if err != nil {
			return fmt.Errorf("tables/%s:%d: %w", p.file, number, err)
		}
		return nil
	}
	n := 0
	for l := range strings.Lines(text) {
		n++
		l = strings.TrimRight(l, " \t\r\n")
		if l != "" && (l[0] == ' ' || l[0] == '\t') {
			logical += " " + strings.TrimSpace(l)
			continue
		}
		if err := flush(); err != nil {
			return err
		}
		if l != "" && l[0] != '#' {
			logical, number = l, n
		}
	}
	return flush()
}

func (p *parser) line(l string) error {
	word, rest, _ := strings.Cut(l, " ")
	args := strings.Fields(rest)
	switch word {
	case "message", "noop":
		return p.message(word == "noop", rest)
	case "why":
		where, text, ok := strings.Cut(rest, ": ")
		if !ok {
			return fmt.Errorf("want %q", "why M.field: text")
		}
		p.catalog.why[p.pkg+"."+where] = text
		return nil
	case "type":
		return p.extension(args)
	}
	if word == "slot" && (len(args) == 2 || len(args) == 3 && args[2] == "optional") {
		p.slot = &slot{
			name: args[0], category: args[1], types: map[protoreflect.FullName]string{},
			byName: map[string]bool{}, disabled: map[protoreflect.FullName]bool{},
			optional: len(args) == 3,
		}
		p.catalog.slots[args[0]] = p.slot
		return nil
	}
	if len(args) != 1 {
		return fmt.Errorf("%q with %d words after it", word, len(args))
	}
	switch word {
	case "package":
		p.pkg = args[0]
	case "within":
		p.classes.within = append(p.classes.within, args[0])
	case "also":
		p.classes.also[protoreflect.FullName(args[0])] = true
	case "not":
		p.classes.not[protoreflect.FullName(args[0])] = true
	default:
		return fmt.Errorf("unknown word %q", word)
	}
	return nil
}

// extension reads "type NAME MESSAGE ...".
func (p *parser) extension(args []string) error {
	if p.slot == nil || len(args) < 2 {
		return fmt.Errorf("want %q after a slot", "type NAME MESSAGE")
	}
	for _, t := range args[1:] {
		if t == "-" {
			p.slot.byName[args[0]] = true
			continue
		}
		p.slot.types[protoreflect.FullName(t)] = args[0]
	}
	return nil
}

// message reads "M: field ...".
func (p *parser) message(noop bool, rest string) error {
	name, list, ok := strings.Cut(rest, ":")
	if !ok {
		return fmt.Errorf("no colon after the message's name")
	}
	full := protoreflect.FullName(p.pkg + "." + name)
	e := p.catalog.messages[full]
	if e == nil {
		e = &entry{fields: map[protoreflect.Name]field{}}
		p.catalog.messages[full] = e
	}
	for item := range strings.FieldsSeq(list) {
		f := field{noop: noop}
		switch i := strings.IndexAny(item, "=!<"); {
		case i < 0:
		case item[i] == '=':
			item, f.only = item[:i], strings.Split(item[i+1:], "|")
		case item[i] == '!':
			item, f.except = item[:i], strings.Split(item[i+1:], "|")
		default:
			item, f.slot = item[:i], strings.TrimSuffix(item[i+1:], ">")
		}
		if _, twice := e.fields[protoreflect.Name(item)]; twice {
			return fmt.Errorf("%s.%s is listed twice", full, item)
		}
		e.fields[protoreflect.Name(item)] = f
	}
	return nil
}
