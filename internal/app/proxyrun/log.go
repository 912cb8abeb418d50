package proxyrun

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
)

// ComponentKey is the attribute by which a logger says which component it
// belongs to: the %n of the log format, and what --component-log-level names.
const ComponentKey = "component"

// Sink is where log lines go: a stream, or a file that can be opened anew. It is
// safe for concurrent use.
type Sink struct {
	mu   sync.Mutex
	w    io.Writer
	name string
	file *os.File
}

// NewSink writes to the file of a name, or to w if the name is empty.
func NewSink(name string, w io.Writer) (*Sink, error) {
	s := &Sink{w: w, name: name}
	return s, s.Reopen()
}

// Reopen opens the file again, after it was moved away (BS-48). If that fails,
// lines go on to the file that was open.
func (s *Sink) Reopen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == "" {
		return nil
	}
	f, err := os.OpenFile(s.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("the log file of --log-path: %w", err)
	}
	old := s.file
	s.file, s.w = f, f
	if old == nil {
		return nil
	}
	return old.Close()
}

// Write writes one line.
func (s *Sink) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(line)
}

// Close closes the file, if there is one.
func (s *Sink) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.w = nil, io.Discard
	return err
}

// NewLogger makes a logger that writes lines in a format: one in Envoy's syntax,
// or the words text and json for those of Go.
func NewLogger(format string, levels *Levels, w io.Writer) (*slog.Logger, error) {
	plain := &slog.HandlerOptions{Level: LevelTrace, ReplaceAttr: envoyLevel}
	switch format {
	case "text":
		return slog.New(&leveled{levels: levels, next: slog.NewTextHandler(w, plain), keep: true}), nil
	case "json":
		return slog.New(&leveled{levels: levels, next: slog.NewJSONHandler(w, plain), keep: true}), nil
	}
	return patternLogger(format, false, levels, w)
}

func patternLogger(format string, escape bool, levels *Levels, w io.Writer) (*slog.Logger, error) {
	p, err := newPattern(format, escape)
	if err != nil {
		return nil, err
	}
	return slog.New(&leveled{levels: levels, next: &lineHandler{pattern: p, w: w, pid: os.Getpid()}}), nil
}

// ConfiguredLogger makes a logger as the bootstrap's application_log_config says,
// nil if it says nothing (BS-48).
func ConfiguredLogger(c *bootstrapv3.Bootstrap_ApplicationLogConfig, levels *Levels, w io.Writer) (*slog.Logger, error) {
	switch f := c.GetLogFormat().GetLogFormat().(type) {
	case *bootstrapv3.Bootstrap_ApplicationLogConfig_LogFormat_TextFormat:
		return patternLogger(f.TextFormat, false, levels, w)
	case *bootstrapv3.Bootstrap_ApplicationLogConfig_LogFormat_JsonFormat:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(f.JsonFormat.AsMap()); err != nil {
			return nil, fmt.Errorf("application_log_config.log_format.json_format: %w", err)
		}
		return patternLogger(strings.TrimSpace(b.String()), true, levels, w)
	}
	return nil, nil
}

// envoyLevel gives levels Envoy's names.
func envoyLevel(_ []string, a slog.Attr) slog.Attr {
	if l, ok := a.Value.Any().(slog.Level); ok && a.Key == slog.LevelKey {
		return slog.String(slog.LevelKey, LevelName(l))
	}
	return a
}

// leveled asks the component's level, which may change.
type leveled struct {
	levels    *Levels
	component string
	next      slog.Handler
	keep      bool // the component stays an attribute
}

func (h *leveled) Enabled(_ context.Context, l slog.Level) bool {
	return l >= h.levels.Level(h.component)
}

func (h *leveled) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }

func (h *leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	for _, a := range attrs {
		if a.Key == ComponentKey {
			c.component = a.Value.String()
		}
	}
	if l, ok := h.next.(*lineHandler); ok {
		next := *l
		next.component = c.component
		c.next = &next
	}
	if !h.keep {
		attrs = slices.DeleteFunc(slices.Clone(attrs), func(a slog.Attr) bool { return a.Key == ComponentKey })
	}
	c.next = c.next.WithAttrs(attrs)
	return &c
}

func (h *leveled) WithGroup(name string) slog.Handler {
	c := *h
	c.next = h.next.WithGroup(name)
	return &c
}

// lineHandler writes lines in a pattern; attributes follow the message.
type lineHandler struct {
	pattern   pattern
	w         io.Writer
	pid       int
	component string
	prefix    string // of attribute names
	attrs     string
}

func (h *lineHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	var message strings.Builder
	message.WriteString(r.Message)
	message.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		writeAttr(&message, h.prefix, a)
		return true
	})
	l := &line{time: r.Time, level: LevelName(r.Level), component: h.component, message: message.String(), pid: h.pid}
	if l.component == "" {
		l.component = "main"
	}
	if r.PC != 0 {
		l.frame, _ = runtime.CallersFrames([]uintptr{r.PC}).Next()
	}
	var b bytes.Buffer
	for _, part := range h.pattern {
		part(&b, l)
	}
	b.WriteByte('\n')
	_, err := h.w.Write(b.Bytes())
	return err
}

func writeAttr(b *strings.Builder, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			writeAttr(b, prefix, inner)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \t\n\"=") {
		text = fmt.Sprintf("%q", text)
	}
	fmt.Fprintf(b, " %s%s=%s", prefix, a.Key, text)
}

func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		writeAttr(&b, h.prefix, a)
	}
	c := *h
	c.attrs += b.String()
	return &c
}

func (h *lineHandler) WithGroup(name string) slog.Handler {
	c := *h
	if name != "" {
		c.prefix += name + "."
	}
	return &c
}
