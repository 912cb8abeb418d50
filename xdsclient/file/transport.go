package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/xebec-proxy/xebec/internal/configload"
	"github.com/xebec-proxy/xebec/internal/filewatch"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Config says which file (envoy/config/core/v3/config_source.proto,
// PathConfigSource).
type Config struct {
	// Path is the file. It must exist when the transport is made (XF-02).
	Path string
	// WatchedDirectory, if set, is a directory; whenever something is moved into
	// it, the file is read again.
	WatchedDirectory string
	// MovesOnly ignores what is written to the file in place, as Envoy does
	// (BS-27): half of a file is never read. Default false: it is read when nobody
	// has written to it for a moment.
	MovesOnly bool
	// Collection says that the file holds one Resource with a list collection,
	// such as a ListenerCollection, as "file:///…" locators do, and no
	// DiscoveryResponse (XF-07).
	Collection bool
	// KeepFileNames leaves the files that secrets name to whoever takes the secrets.
	// Default false: what is in them is put in their place, and they are watched
	// (XF-06).
	KeepFileNames bool
	// Types finds the messages that Any fields hold. Default: all that are linked
	// in.
	Types configload.Resolver
	// Useless, if set, is called when a reading was of no use, for another reason
	// than the one before. It must be quick and must not call the transport.
	Useless func(typeURL string, err error)
	// Logger is told of what is wrong with the file. nil logs nothing.
	Logger *slog.Logger
}

// Transport reads a file. It implements xdsclient.Transport; its methods are
// safe for concurrent use.
type Transport struct {
	cfg   Config
	delay delays

	mu    sync.Mutex
	stats Stats
}

// delays are how long changes are waited for.
type delays struct {
	moved   time.Duration // after a move, for others that belong to it
	written time.Duration // after a write, for the writer to finish
	rescan  time.Duration // between looks at what was not announced
}

var _ xdsclient.Transport = (*Transport)(nil)

// Stats counts what became of the file. Counters only grow.
type Stats struct {
	// Attempts counts readings of the file, when they are over. Each ends in one of Successes,
	// Rejected (its content is bad), Failures (it cannot be read), or was the same
	// as before.
	Attempts, Successes, Rejected, Failures uint64
	// Version is the version_info of the content in use, LastError why the last
	// reading was of no use, nil if it was.
	Version   string
	LastError error
}

// New checks a configuration.
func New(cfg Config) (*Transport, error) {
	info, err := os.Stat(cfg.Path)
	switch {
	case cfg.Path == "":
		return nil, errors.New("path: name the file with the resources")
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("path: there is no file %s; it must exist from the beginning: %w", cfg.Path, err)
	case err != nil:
		return nil, fmt.Errorf("path: the file cannot be used: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("path: %s is a directory; name the file in it", cfg.Path)
	}
	if ext := strings.ToLower(filepath.Ext(cfg.Path)); !slices.Contains(configload.Suffixes(), ext) {
		return nil, fmt.Errorf("path: %s has the suffix %q; the format follows from it, which can be %s",
			cfg.Path, ext, strings.Join(configload.Suffixes(), " "))
	}
	if dir := cfg.WatchedDirectory; dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("watched_directory: it cannot be used: %w", err)
		} else if !info.IsDir() {
			return nil, fmt.Errorf("watched_directory: %s is no directory", dir)
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Transport{cfg: cfg, delay: delays{50 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second}}, nil
}

// CollectionPath is the path of a "file:///…" locator of a list collection
// (xds/core/v3/resource_locator.proto), for a Config with Collection.
func CollectionPath(locator string) (string, error) {
	u, err := url.Parse(locator)
	switch {
	case err != nil:
		return "", fmt.Errorf("the locator %q: %w", locator, err)
	case u.Scheme != "file":
		return "", fmt.Errorf("the locator %q is none of a file: it does not begin with file:///", locator)
	case u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || u.Path == "/":
		return "", fmt.Errorf("the locator %q does not name a file: it should be file:/// and an absolute path", locator)
	case u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("the locator %q has context parameters or a fragment, which are not supported for files", locator)
	}
	return filepath.FromSlash(u.Path), nil
}

// Stats reads the counters.
func (t *Transport) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

func (t *Transport) count(do func(*Stats)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	do(&t.stats)
}

// Open makes a stream of the file's one type.
func (t *Transport) Open(ctx context.Context, o xdsclient.Opening) (xdsclient.Stream, error) {
	switch {
	case o.TypeURL == "":
		return nil, errors.New("a file is no aggregated stream: set PerType")
	case o.Delta:
		return nil, errors.New("a file is always state of the world, not delta")
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		t.cfg.Logger.Warn("changes of files will be noticed late", "path", t.cfg.Path, "error", err)
		w = nil
	} else {
		context.AfterFunc(ctx, func() { _ = w.Close() })
	}
	typ, known := xds.LookupType(o.TypeURL)
	if !known {
		typ = xds.Type{URL: o.TypeURL, Kind: xds.Kind(o.TypeURL)}
	}
	return &stream{t: t, ctx: ctx, typ: typ, watch: filewatch.New(w, t.cfg.MovesOnly), news: make(chan struct{}, 1)}, nil
}

// Close does nothing: a transport holds nothing beyond its streams.
func (*Transport) Close() error { return nil }
