package xdsclient

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// Config says where a [Source] gets its resources from. Only Servers is
// required.
type Config struct {
	// Node identifies the client. Its user agent and client features are
	// replaced (XC-37, GC-19).
	Node *corev3.Node
	// UserAgent and UserAgentVersion are what the node says of the program.
	// Default "xebec", and the version of the module as it was built.
	UserAgent, UserAgentVersion string
	// Features are client features to announce beside those of this package,
	// which are that it understands wrapped resources and TTLs. A client that
	// does not overprovision adds xds.FeatureNoOverprovisioning (GC-20).
	Features []string

	// Servers are tried in order: the first is preferred, each other one is used
	// while those before it cannot be reached (XC-32).
	Servers []Server
	// Authorities says who is asked for names of the form
	// "xdstp://authority/…" (GC-60). Names of an authority that is not listed
	// cannot be watched, unless AnyAuthority is set. Servers of the same name share their streams, here and
	// above (GC-31).
	Authorities map[string]Authority

	// AnyAuthority sends names of authorities that are not listed to Servers, for
	// a program that has chosen the source by the authority already.
	AnyAuthority bool

	// Delta chooses the delta variant, otherwise state of the world. PerType
	// opens a stream for each type, otherwise one carries all (ADS).
	Delta, PerType bool
	// RepeatNode sends the node with every request and not only with the first
	// of a stream (XC-03).
	RepeatNode bool
	// WholeResponses refuses all of a response of which one resource is invalid;
	// otherwise what is valid is used (XC-11).
	WholeResponses bool
	// ResourceTimeout is how long after the request a resource is held not to
	// exist (XC-17). Default 15 s, or 30 s under Policy.TimeoutIsTransient;
	// negative for no limit.
	ResourceTimeout time.Duration
	// Backoff is the wait between attempts to reach a server. Default
	// [DefaultBackoff].
	Backoff Backoff
	// RateLimit limits requests; nil for no limit (XC-30).
	RateLimit *RateLimit
	// Linger is how long a stream without a watch stays open. Default 1 s.
	Linger time.Duration
	// Validators look at each response of a type as a whole before it is
	// accepted, by type URL; an error rejects it (XC-38).
	Validators map[string][]ResponseValidator

	// Store keeps what was received last, for a start without any server
	// (GC-77); secrets are never stored. nil keeps nothing.
	Store Store
	// Logger is told about connections, rejected resources and fallbacks. nil
	// logs nothing.
	Logger *slog.Logger
	// Metrics counts (XC-39). nil counts nothing.
	Metrics Metrics
}

// Server is one management server.
type Server struct {
	// Name identifies the server in errors, logs and statistics. Servers of the
	// same name are one.
	Name string
	// Transport reaches it.
	Transport Transport
	// Alternates are further ways to it, tried in turn when one fails before a
	// response (XC-31).
	Alternates []Transport
	// Policy says what becomes of resources when something is wrong.
	Policy Policy
}

// Policy says what happens to a cached resource (XC-33, XC-35, XC-36). The zero
// value drops what the server deletes and keeps everything else.
type Policy struct {
	// KeepDeleted keeps resources that the server has deleted, with an ambient
	// error, until they come again (gRFC A53).
	KeepDeleted bool
	// FailOnDataErrors drops a resource that is deleted, that the server answers
	// NOT_FOUND or PERMISSION_DENIED for, or of which an invalid version came
	// (gRFC A88).
	FailOnDataErrors bool
	// TimeoutIsTransient makes a resource that does not come in time a transient
	// error after 30 s, instead of one that does not exist after 15 s (gRFC A88).
	TimeoutIsTransient bool
}

// Authority is who owns structured names.
type Authority struct {
	// Servers are tried in order. Default: those of the source.
	Servers []Server
	// FallBackAtOnce uses the next server as soon as one cannot be reached, even
	// if every resource is cached (GC-28). It also holds for names without an
	// authority if set for the authority "".
	FallBackAtOnce bool
}

// RateLimit is a token bucket for requests.
type RateLimit struct {
	// Burst is how many requests may be sent at once. Default 100.
	Burst int
	// PerSecond is how many more each second. Default 10.
	PerSecond float64
}

// Candidate is a resource of a response that is being looked at.
type Candidate struct {
	Name, Version string
	// Value is decoded; nil if Removed, or if it is what is held already.
	Value any
	// Removed: the response says or implies that the resource is deleted.
	Removed bool
}

// ResponseValidator looks at what a response would change. It is called one at
// a time, and must not call the source.
type ResponseValidator func(typeURL string, changes []Candidate) error

const (
	defaultTimeout   = 15 * time.Second
	transientTimeout = 30 * time.Second
	defaultLinger    = time.Second
	defaultUserAgent = "xebec"
)

// timeout is the does-not-exist timer of a link.
func (l *link) timeout() time.Duration {
	switch {
	case l.s.cfg.ResourceTimeout != 0:
		return l.s.cfg.ResourceTimeout
	case l.srv.Policy.TimeoutIsTransient:
		return transientTimeout
	}
	return defaultTimeout
}

// complete checks the configuration and fills in defaults.
func (c *Config) complete() error {
	if len(c.Servers) == 0 {
		return errors.New("xdsclient: Config.Servers is empty: name at least one server")
	}
	if c.Backoff == (Backoff{}) {
		c.Backoff = DefaultBackoff()
	}
	if err := c.Backoff.check(); err != nil {
		return err
	}
	if c.Linger == 0 {
		c.Linger = defaultLinger
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	if err := checkServers("Servers", c.Servers); err != nil {
		return err
	}
	for name, a := range c.Authorities {
		if err := checkServers(fmt.Sprintf("Authorities[%q].Servers", name), a.Servers); err != nil {
			return err
		}
	}
	return nil
}

func checkServers(where string, servers []Server) error {
	seen := map[string]bool{}
	for i, s := range servers {
		switch {
		case s.Name == "":
			return fmt.Errorf("xdsclient: Config.%s[%d] has no name: it identifies the server in errors and statistics", where, i)
		case s.Transport == nil:
			return fmt.Errorf("xdsclient: Config.%s[%d] (%q) has no transport: use Conn or Dial", where, i, s.Name)
		case seen[s.Name]:
			return fmt.Errorf("xdsclient: Config.%s[%d] (%q) is listed twice", where, i, s.Name)
		}
		seen[s.Name] = true
	}
	return nil
}
