package proxyrun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"

	"github.com/xebec-proxy/xebec/validate"
)

// Runner is a proxy that was built and is not running yet.
type Runner interface {
	// Run serves until ctx ends, then stops in an orderly way: listeners are
	// closed, statistics and logs flushed. It returns after everything it started.
	Run(ctx context.Context) error
	// Reopen opens the access logs anew. It is safe to call while Run runs.
	Reopen()
}

// Build makes a proxy of what was loaded, without opening listeners or
// contacting anyone: what is wrong with it shows here, as an error that says
// where.
type Build func(*Loaded, Options) (Runner, error)

// Streams are where output goes.
type Streams struct {
	Stdout, Stderr io.Writer
}

// ErrNotServing says that this program cannot serve.
var ErrNotServing = errors.New("this program can check configuration only (--mode validate)")

// Start loads the bootstrap and either says that it is in order (--mode
// validate) or serves it until ctx ends. build may be nil: then configuration is
// checked as far as Load does, and serving is an error. Warnings are logged, or
// written to Stderr when validating. An error means that nothing was left
// running and no port is bound (BS-52).
func Start(ctx context.Context, o Options, env Environment, out Streams, build Build) (err error) {
	sink, err := NewSink(o.Flags.LogPath, out.Stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	loaded, err := Load(o.Flags, env)
	if err != nil {
		return err
	}
	o.Catalog, o.ReopenLog = loaded.Catalog, sink.Reopen
	if o.Log, err = logger(loaded, o, sink); err != nil {
		return err
	}
	if o.Flags.Validate {
		return checkOnly(loaded, o, out, build)
	}
	config := o.Log.With(ComponentKey, "config")
	for _, w := range loaded.Warnings {
		config.LogAttrs(ctx, slog.LevelWarn, w.Message, warningAttrs(w)...) //nolint:sloglint // the message is Envoy's, and what differs is in the attributes
	}
	if build == nil {
		return ErrNotServing
	}
	r, err := build(loaded, o)
	if err != nil {
		return fmt.Errorf("error initializing configuration '%s': %w", loaded.Path, err)
	}
	return serve(ctx, r, sink, o.Log)
}

// logger is the one of the bootstrap, if it has one, or of the flags.
func logger(loaded *Loaded, o Options, w io.Writer) (*slog.Logger, error) {
	configured := loaded.Bootstrap.GetApplicationLogConfig()
	if configured != nil && o.Flags.LogFormat != "" {
		return nil, errors.New("Only one of application_log_config or CLI option --log-format can be specified.") //nolint:staticcheck,revive // Envoy's text
	}
	log, err := ConfiguredLogger(configured, o.Levels, w)
	if log != nil || err != nil {
		return log, err
	}
	format := o.Flags.LogFormat
	if format == "" {
		format = DefaultLogFormat
	}
	if log, err = NewLogger(format, o.Levels, w); err != nil {
		return nil, fmt.Errorf("--log-format: %w", err)
	}
	return log, nil
}

// checkOnly builds everything and runs nothing (BS-03).
func checkOnly(loaded *Loaded, o Options, out Streams, build Build) error {
	for _, w := range loaded.Warnings {
		fmt.Fprintln(out.Stderr, w)
	}
	if build != nil {
		if _, err := build(loaded, o); err != nil {
			return fmt.Errorf("error initializing configuration '%s': %w", loaded.Path, err)
		}
	}
	_, err := fmt.Fprintf(out.Stdout, "configuration '%s' OK\n", loaded.Path)
	return err
}

func warningAttrs(f validate.Finding) []slog.Attr {
	attrs := []slog.Attr{slog.String("code", f.Code)}
	if at := f.Pos.String(); at != "" {
		attrs = append(attrs, slog.String("at", at))
	}
	if f.Path != "" {
		attrs = append(attrs, slog.String("path", f.Path))
	}
	if f.Hint != "" {
		attrs = append(attrs, slog.String("hint", f.Hint))
	}
	return attrs
}

// serve runs a proxy and takes the signals that do not end it: SIGUSR1 opens the
// logs anew, SIGHUP does nothing (BS-50).
func serve(ctx context.Context, r Runner, sink *Sink, log *slog.Logger) error {
	signals := make(chan os.Signal, 4)
	if watched := append(reopenSignals(), ignoredSignals()...); len(watched) > 0 {
		signal.Notify(signals, watched...)
	}
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if !isReopen(s) {
				continue
			}
			log.Info("reopening log files")
			if err := sink.Reopen(); err != nil {
				log.Error("the log file cannot be opened again; lines go on to the old one", slog.Any("error", err))
			}
			r.Reopen()
		}
	}
}

func isReopen(s os.Signal) bool {
	return slices.Contains(reopenSignals(), s)
}
