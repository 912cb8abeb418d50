package format

import (
	"strconv"
	"sync"

	"github.com/xebec-proxy/xebec/filter"
	"github.com/xebec-proxy/xebec/filter/header"
)

// Format is a compiled text. It is immutable and safe for concurrent use.
type Format struct {
	parts    []part
	empty    string // what stands for an operator without a value
	contexts sync.Pool
}

// Static reports whether the text has no operators, and gives it.
func (f *Format) Static() (string, bool) {
	if len(f.parts) == 0 {
		return "", true
	}
	if len(f.parts) == 1 && f.parts[0].op == nil {
		return f.parts[0].literal, true
	}
	return "", false
}

// Append appends the text for a header's value: operators without a value give
// nothing. nonEmpty tells whether anything was appended (RT-23).
func (f *Format) Append(dst []byte, req, resp *header.Map, info *filter.StreamInfo) (out []byte, nonEmpty bool) {
	n := len(dst)
	if s, ok := f.Static(); ok {
		return append(dst, s...), s != ""
	}
	c, ok := f.contexts.Get().(*Context)
	if !ok {
		c = new(Context)
	}
	c.Req, c.Resp, c.Info, c.reply = req, resp, info, true
	dst = f.append(dst, c, "")
	*c = Context{}
	f.contexts.Put(c)
	return dst, len(dst) > n
}

// AppendLog appends the text for an access log: "-" stands for an operator
// without a value, or nothing if the format omits empty values (AL-03).
func (f *Format) AppendLog(dst []byte, c *Context) []byte { return f.append(dst, c, f.empty) }

func (f *Format) append(dst []byte, c *Context, empty string) []byte {
	for i := range f.parts {
		p := &f.parts[i]
		dst = append(dst, p.literal...)
		if p.op == nil {
			continue
		}
		var ok bool
		if dst, ok = p.op.append(dst, c); !ok {
			dst = append(dst, empty...)
		}
	}
	return dst
}

// append appends the value as a text; false, and nothing, if there is none.
func (o *op) append(dst []byte, c *Context) ([]byte, bool) {
	n := len(dst)
	ok := false
	switch {
	case o.number != nil:
		var v int64
		if v, ok = o.number(c); ok {
			dst = strconv.AppendInt(dst, v, 10)
		}
	case o.text != nil:
		dst, ok = o.text(dst, c)
	default:
		dst, ok = o.value(dst, c, false)
	}
	if !ok {
		return dst[:n], false
	}
	if o.cut && len(dst)-n > o.max {
		dst = dst[:n+o.max]
	}
	return dst, true
}
