package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"

	"github.com/xebec-proxy/xebec/internal/dataplane/format"
)

// DefaultFormat is the line without a configured format, Envoy's (AL-02).
const DefaultFormat = `[%START_TIME%] "%REQUEST_HEADER(:METHOD)% %REQUEST_HEADER(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" ` +
	`%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% ` +
	`%RESPONSE_HEADER(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQUEST_HEADER(X-FORWARDED-FOR)%" "%REQUEST_HEADER(USER-AGENT)%" ` +
	`"%REQUEST_HEADER(X-REQUEST-ID)%" "%REQUEST_HEADER(:AUTHORITY)%" "%UPSTREAM_HOST%"` + "\n"

// Log is one configured access log. It is immutable.
type Log struct {
	file   *File
	line   format.Line
	passes condition // nil passes all
}

// Logs are the access logs of a connection manager, a filter or a listener, in
// configured order. They are immutable and shared by workers.
type Logs []Log

// Env is what access logs are built with.
type Env struct {
	// Files opens the files; needed.
	Files *Files
	// Path is the field that has the list, for errors; "access_log" if empty.
	Path string
	// Getenv and ReadFile serve formats that name a variable or a file.
	Getenv   func(name string) (string, bool)
	ReadFile func(name string) ([]byte, error)
	// Runtime is a runtime key's fraction, RuntimeInteger its number, if the
	// runtime has the key. They are asked for each line, by any worker. Nil has
	// no key.
	Runtime        func(key string) (numerator, denominator uint32, ok bool)
	RuntimeInteger func(key string) (value uint64, ok bool)
	// Random is for sampling; any worker calls it. Nil: math/rand/v2.
	Random func() uint64
}

// New builds access logs of their configuration and opens their files. Errors
// name the field below access_log, in Envoy's words where it has some.
func New(list []*accesslogv3.AccessLog, e Env) (Logs, error) {
	logs := make(Logs, 0, len(list))
	var errs []error
	for i, cfg := range list {
		path := cmp.Or(e.Path, "access_log") + "[" + strconv.Itoa(i) + "]"
		l, err := e.log(path, cfg)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		logs = append(logs, l)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return logs, nil
}

func (e *Env) log(path string, cfg *accesslogv3.AccessLog) (Log, error) {
	var l Log
	file, f, err := e.sink(cfg)
	if err != nil {
		return l, fmt.Errorf("%s.typed_config: %w", path, err)
	}
	l.line = f
	if l.passes, err = e.newFilter(path+".filter", cfg.GetFilter()); err != nil {
		return l, err
	}
	if l.file, err = e.Files.Open(file); err != nil { // last, so that a refused log makes no file
		return l, fmt.Errorf("%s.typed_config: %w", path, err)
	}
	return l, nil
}

// sink reads the kind of log: which file, and how a line looks.
func (e *Env) sink(cfg *accesslogv3.AccessLog) (path string, line format.Line, err error) {
	o := format.Options{Environment: e.Getenv, ReadFile: e.ReadFile}
	typed := cfg.GetTypedConfig()
	const prefix = "type.googleapis.com/"
	switch typed.GetTypeUrl() {
	case prefix + "envoy.extensions.access_loggers.file.v3.FileAccessLog":
		var m filev3.FileAccessLog
		if err = typed.UnmarshalTo(&m); err != nil {
			return "", nil, err
		}
		if m.GetPath() == "" {
			return "", nil, errors.New("path: a path is needed")
		}
		line, err = fileLine(&m, o)
		return m.GetPath(), line, err
	case prefix + "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog":
		var m streamv3.StdoutAccessLog
		if err = typed.UnmarshalTo(&m); err == nil {
			line, err = logFormat(m.GetLogFormat() != nil, func() (format.Line, error) { return format.ParseString(m.GetLogFormat(), o) })
		}
		return StdoutPath, line, err
	case prefix + "envoy.extensions.access_loggers.stream.v3.StderrAccessLog":
		var m streamv3.StderrAccessLog
		if err = typed.UnmarshalTo(&m); err == nil {
			line, err = logFormat(m.GetLogFormat() != nil, func() (format.Line, error) { return format.ParseString(m.GetLogFormat(), o) })
		}
		return StderrPath, line, err
	}
	return "", nil, fmt.Errorf("Didn't find a registered implementation for '%s' with type URL: '%s'", //nolint:staticcheck // Envoy's text
		cfg.GetName(), typed.GetTypeUrl())
}

// fileLine reads the forms that a file's format may have; an empty text is the
// default one.
func fileLine(m *filev3.FileAccessLog, o format.Options) (format.Line, error) {
	switch f := m.GetAccessLogFormat().(type) {
	case *filev3.FileAccessLog_LogFormat:
		return logFormat(true, func() (format.Line, error) { return format.ParseString(f.LogFormat, o) })
	case *filev3.FileAccessLog_Format:
		old := f.Format //nolint:staticcheck // deprecated, and in use
		return logFormat(old != "", func() (format.Line, error) { return text(old, o) })
	case *filev3.FileAccessLog_JsonFormat:
		return named("json_format", func() (format.Line, error) { return format.ParseJSON(f.JsonFormat, o) }) //nolint:staticcheck // deprecated, and in use
	case *filev3.FileAccessLog_TypedJsonFormat:
		return named("typed_json_format", func() (format.Line, error) { return format.ParseJSON(f.TypedJsonFormat, o) }) //nolint:staticcheck // deprecated, and in use
	}
	return text(DefaultFormat, o)
}

func text(s string, o format.Options) (format.Line, error) { return format.ParseWith(s, o) }

// logFormat is the configured format, or the default one.
func logFormat(given bool, parse func() (format.Line, error)) (format.Line, error) {
	if !given {
		return text(DefaultFormat, format.Options{})
	}
	return named("log_format", parse)
}

func named(field string, parse func() (format.Line, error)) (format.Line, error) {
	l, err := parse()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return l, nil
}

// Log writes the lines of a stream that has ended, each to the worker's buffer
// of its file. It neither blocks nor allocates in the steady state.
func (l Logs) Log(w *Worker, c *format.Context) {
	for i := range l {
		log := &l[i]
		if log.passes != nil && !log.passes(c) {
			continue
		}
		b := w.buffer(log.file)
		b.b = log.line.AppendLog(b.b, c)
		w.added(b)
	}
}
