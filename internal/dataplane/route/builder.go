package route

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// builder makes a table and collects what is wrong with its configuration.
type builder struct {
	env  *Env
	t    *Table
	errs []error
	// before are virtual hosts that are built already.
	before map[*routev3.VirtualHost]*virtualHost
}

func (b *builder) fail(path string, err error) {
	if err != nil {
		b.errs = append(b.errs, at(path, err))
	}
}

// add takes an error that names its field.
func (b *builder) add(err error) {
	if err != nil {
		b.errs = append(b.errs, err)
	}
}

func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// only refuses, by name, every field that is set and not among those built.
// What is never refused silently is never ignored silently either.
func (b *builder) only(path string, m proto.Message, built ...string) {
	r := m.ProtoReflect()
	if !r.IsValid() {
		return
	}
	var extra []string
	r.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if name := string(f.Name()); !slices.Contains(built, name) {
			extra = append(extra, name)
		}
		return true
	})
	slices.Sort(extra)
	for _, name := range extra {
		b.fail(join(path, name), fmt.Errorf("%s.%s is not built in this version: remove it", r.Descriptor().Name(), name))
	}
}

func join(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func (b *builder) result() error { return errors.Join(b.errs...) }
