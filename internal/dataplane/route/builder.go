package route

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/xebec-proxy/xebec/filter"
)

// builder makes a table and collects what is wrong with its configuration.
type builder struct {
	env  *Env
	t    *Table
	errs []error
	warnings
	outside
}

// outside is what a part of a table depends on beside its configuration.
type outside struct {
	asked []string // clusters that must exist
	// read is set when a file is read: by what the table names, or by the
	// configuration of a filter, which may have its env for longer than that.
	read *atomic.Bool
	// filterEnv sets it, nil before it is needed.
	filterEnv *filter.Env
}

func (o *outside) reads() {
	if o.read == nil {
		o.read = &atomic.Bool{}
	}
	o.read.Store(true)
}

// hasRead reports whether a file was read since it was asked last.
func (o *outside) hasRead() bool { return o.read != nil && o.read.Swap(false) }

// forFilters is the env of filters.
func (b *builder) forFilters() *filter.Env {
	if b.filterEnv != nil || b.env.FilterEnv == nil || b.env.FilterEnv.ReadFile == nil {
		return cmp.Or(b.filterEnv, b.env.FilterEnv)
	}
	if b.read == nil {
		b.read = &atomic.Bool{}
	}
	e, read, file := *b.env.FilterEnv, b.read, b.env.FilterEnv.ReadFile
	e.ReadFile = func(name string) ([]byte, error) {
		read.Store(true)
		return file(name)
	}
	b.filterEnv = &e
	return b.filterEnv
}

// warnings are told when the table is made.
type warnings []warning

type warning struct{ what, path string }

func (w *warnings) warn(what, path string) { *w = append(*w, warning{what, path}) }

func (w *warnings) tell(env *Env) {
	for _, x := range *w {
		env.warn(x.what, x.path)
	}
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
