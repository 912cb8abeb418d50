package file

import (
	"log/slog"
	"time"

	"github.com/xebec-proxy/xebec/validate"
)

// Option sets an optional property of a Source or of Load.
type Option func(*options)

type options struct {
	log             *slog.Logger
	lenient, strict bool
	quiet, max      time.Duration
	rescan          time.Duration
	onFindings      func([]validate.Finding)
	parse           parser
}

func newOptions(opts []Option) options {
	o := options{
		log: slog.New(slog.DiscardHandler), quiet: 20 * time.Millisecond, max: 500 * time.Millisecond,
		rescan: 10 * time.Second, onFindings: func([]validate.Finding) {},
	}
	for _, f := range opts {
		f(&o)
	}
	if o.parse == nil {
		o.parse = newParser(o.lenient)
	}
	return o
}

// WithLogger sets where the source says what it loads and finds. The default
// is nowhere.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.log = l } }

// WithLenient delivers resources that break a rule of their message, with a
// warning instead of an error (XS-83). What cannot be decoded is still refused.
func WithLenient(on bool) Option { return func(o *options) { o.lenient = on } }

// WithStrict refuses what refers to a resource that is not there: a new
// resource is withheld until its references exist, a changed one keeps the
// version before, and a resource that others need is not removed. By default
// these are warnings, because the order of edits is the operator's.
func WithStrict(on bool) Option { return func(o *options) { o.strict = on } }

// WithDebounce sets how changes merge: a burst goes out when nothing has
// changed for quiet, at most max after its first change. The defaults are
// 20 ms and 500 ms. A change that comes alone goes out at once. Values that
// are not positive keep the default, and max is at least quiet.
func WithDebounce(quiet, longest time.Duration) Option {
	return func(o *options) {
		if quiet > 0 {
			o.quiet = quiet
		}
		if longest > 0 {
			o.max = longest
		}
		o.max = max(o.max, o.quiet)
	}
}

// WithRescan sets how often the directory is listed to find changes that the
// system did not announce, as on network file systems; the default is 10 s.
// Files whose size, time and identity are the same are not read again. Values
// that are not positive keep the default.
func WithRescan(every time.Duration) Option {
	return func(o *options) {
		if every > 0 {
			o.rescan = every
		}
	}
}

// WithOnFindings sets a function to be called with all present findings
// whenever they change. It is called by Run's goroutine and should return
// quickly; the slice is read-only.
func WithOnFindings(f func([]validate.Finding)) Option {
	return func(o *options) { o.onFindings = f }
}
