package client

import (
	"time"
)

// Config is what a Channel is told once. The zero value of a field means its
// default.
type Config struct {
	// Delta selects the delta variant instead of the state of the world.
	Delta bool
	// ResourceTimeout is how long a requested resource may stay unheard of
	// before it is reported missing (XC-17, GC-47). It runs from the moment the
	// request is handed out by Next. Default 15 s, or 30 s with
	// TransientTimeout; negative: for ever.
	ResourceTimeout time.Duration
	// TransientTimeout reports a resource that did not come in time as a
	// server's error UNAVAILABLE instead of as missing (XC-35).
	TransientTimeout bool
	// WholeResponses rejects all of a response if anything in it is bad. By
	// default what is good is applied (XC-11, GC-52).
	WholeResponses bool
	// RepeatNode asks for the node in every request, not only in a stream's
	// first (XC-03).
	RepeatNode bool
	// ExplicitWildcard asks for the wildcard as "*" from the first request on.
	// By default the first request of a type that subscribes to nothing else
	// names nothing, which every server understands (XC-24).
	ExplicitWildcard bool
	// Limit bounds the rate of requests; nil does not (XC-30).
	Limit *Limit
	// Withheld says whether requests of a type are to wait, answers too; the
	// first of a stream does not. Those of other types go ahead. Envoy withholds
	// the answers to clusters while these warm, so that a server that waits for
	// them sends routes when they can be used (XS-69). Called from within Next;
	// nil withholds nothing.
	Withheld func(typeURL string) bool
	// Checker reads resources. Required.
	Checker Checker
}

// Limit is a token bucket for requests (RateLimitSettings in
// envoy/config/core/v3/config_source.proto).
type Limit struct {
	// Burst is how many requests may be sent at once. Default 100.
	Burst int
	// PerSecond is how many may be sent in each second after that. Default 10.
	PerSecond float64
}

// Checker reads resources. Its methods are called from within Receive. What is good
// may depend on what else there is: a body that was refused is looked at whenever it
// comes, since it may be good by then.
type Checker interface {
	// Name reads the name of a resource that carries none beside its body, as in
	// the state-of-the-world variant. It is called for every such resource, so it
	// should not decode more than it has to.
	Name(typeURL string, body []byte) (string, error)
	// Check decodes and validates a resource whose bytes differ from those held, or
	// that follows one that was refused.
	// The value is passed on in the event. The body is that of a message of the
	// type only if the form is Plain. An error refuses the resource, unless it is a
	// *Flaw.
	Check(typeURL, name, version string, form Form, body []byte) (value any, err error)
	// Leaving is told what a response removes, before anything in it is checked: what is
	// new may take the place of what goes. What was told stays if CheckAll refuses.
	Leaving(typeURL string, names []string)
	// CheckAll looks at what a response would change, before it does (XC-38). An
	// error rejects the response as a whole.
	CheckAll(typeURL, version string, events []Event) error
}

const (
	defaultTimeout          = 15 * time.Second
	defaultTransientTimeout = 30 * time.Second
	defaultBurst            = 100
	defaultPerSecond        = 10
	// maxRejection is the longest text of a NACK in bytes (XC-09).
	maxRejection = 4 << 10
	// wildcard subscribes to everything of a type.
	wildcard = "*"
)

func (c Config) withDefaults() Config {
	if c.ResourceTimeout == 0 {
		c.ResourceTimeout = defaultTimeout
		if c.TransientTimeout {
			c.ResourceTimeout = defaultTransientTimeout
		}
	}
	return c
}
