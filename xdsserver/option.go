package xdsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// Call is what an authorisation hook decides on.
type Call struct {
	// Method is the full gRPC method, "/package.Service/Method".
	Method string
	// Peer is the client's address.
	Peer net.Addr
	// Node is the client's node, nil at the start of a call, before its first
	// message has arrived. Hooks are asked twice: without and with it.
	Node *xds.Node
}

// AuthFunc decides whether a call may go on: nil lets it, any other error ends
// it; an error that is no gRPC status ends it with PERMISSION_DENIED. It is
// called concurrently. TLS state and metadata are in ctx, as
// google.golang.org/grpc/peer and metadata have them.
type AuthFunc func(ctx context.Context, c Call) error

// Limits bounds what clients can make the server hold or do. A zero field
// means its default.
type Limits struct {
	// MaxStreams is how many discovery streams may be open; more are refused
	// with RESOURCE_EXHAUSTED. Default: no limit.
	MaxStreams int
	// MaxNames is how many names one subscription may hold. Default 250 000.
	MaxNames int
	// MaxRequestBytes bounds one request. Default 16 MiB.
	MaxRequestBytes int
	// MaxResponseBytes is where a response is split into several, if the
	// protocol allows it (XS-48). Default 3 MiB.
	MaxResponseBytes int
	// RequestsPerSecond and RequestBurst slow down the reading from a stream;
	// the node's streams together may use ten times as much. Default: no limit.
	RequestsPerSecond float64
	RequestBurst      int
	// StreamsPerSecond and StreamBurst admit new streams; one that would have to
	// wait longer than a second is refused with UNAVAILABLE. Default: no limit.
	StreamsPerSecond float64
	StreamBurst      int
	// SendTimeout ends a stream that takes no bytes for so long. Default: never.
	SendTimeout time.Duration
	// Outstanding is how many delta responses of a type may be unanswered
	// (XS-64). Default 16.
	Outstanding int
}

// Option configures a Server.
type Option func(*config) error

type config struct {
	log         *slog.Logger
	identifier  string
	groupOf     xds.GroupFunc
	auth        AuthFunc
	limits      Limits
	types       []xds.Type
	gate        time.Duration
	requireNode bool
	canary      bool
	errors      bool
	alwaysFirst bool
	emptyCLA    bool
	dropECDS    bool
	convert     ConvertFunc
	deny        DenyFunc
	keepalive   Keepalive
	envoyQuirks bool
	perType     bool
	restHold    time.Duration
	restAll     bool

	resolve        ResolveFunc
	resolveTimeout time.Duration
	together       bool
}

// ConvertFunc rewrites a resource for clients that announce
// envoy.config.require-any-fields-contain-struct (XS-82). It is called once
// per content, concurrently, must be fast and must not call the server.
type ConvertFunc func(*xds.Resource) (*xds.Resource, error)

// DenyFunc decides whether a node may have a resource of its group: nil gives
// it, any other error keeps it back and is reported in resource_errors with its
// gRPC code, PERMISSION_DENIED if it is no gRPC status (XS-84). A wildcard
// leaves denied resources out. It is called concurrently, for every resource
// that is about to be sent, must be fast and must not call the server.
type DenyFunc func(n *xds.Node, typeURL, name string) error

// Keepalive bounds the life of connections. A zero field means its default.
type Keepalive struct {
	// MinPing is how often clients may ping. Default 5 s.
	MinPing time.Duration
	// Ping is after how much silence the server pings, PingTimeout how long it
	// waits for the answer. Defaults 30 s and 20 s.
	Ping, PingTimeout time.Duration
	// MaxAge is after how long a connection is drained with GOAWAY, with 10 %
	// jitter, and MaxAgeGrace how long its streams may go on. Default: never.
	MaxAge, MaxAgeGrace time.Duration
}

// WithLogger sets the logger. Default: nothing is logged.
func WithLogger(l *slog.Logger) Option {
	return func(c *config) error { c.log = l; return nil }
}

// WithIdentifier names this instance in every response (XS-09). Default
// "xebec".
func WithIdentifier(id string) Option {
	return func(c *config) error { c.identifier = id; return nil }
}

// WithGroups sets the function from nodes to groups until a batch brings
// another. Default: all nodes are in the group "default".
func WithGroups(f xds.GroupFunc) Option {
	return func(c *config) error { c.groupOf = f; return nil }
}

// WithAuth sets the gate that every call of the grpc.Server built with
// GRPCOptions has to pass, whatever its service. Default: all may pass.
func WithAuth(f AuthFunc) Option {
	return func(c *config) error { c.auth = f; return nil }
}

// WithLimits sets limits.
func WithLimits(l Limits) Option {
	return func(c *config) error { c.limits = l; return nil }
}

// WithTypes adds resource types to those of the protocol (XS-11), or replaces
// the description of one by its URL (XS-35).
func WithTypes(types ...xds.Type) Option {
	return func(c *config) error {
		for _, t := range types {
			if t.URL == "" {
				return errors.New("xdsserver: a type needs a URL")
			}
		}
		c.types = append(c.types, types...)
		return nil
	}
}

// WithGate bounds how long an ordered step on an aggregated stream waits for
// the client's answer to the step before it (XS-69). Default 5 s.
func WithGate(d time.Duration) Option {
	return func(c *config) error {
		if d <= 0 {
			return errors.New("xdsserver: the gate must be longer than 0")
		}
		c.gate = d
		return nil
	}
}

// WithOrderAcrossStreams keeps the order of an aggregated stream (XS-67 to XS-74)
// among the streams of a node that opens one for each type: a route goes out when
// the cluster it needs was accepted on the stream of clusters, and a cluster is
// removed when the stream of routes has accepted that none leads there (XS-75).
// The streams of one node id, cluster and variant belong together; of two for one
// type the newer counts. A step waits no longer than the gate. Streams that are
// moved to another group lose the order until they are opened again. Polls over
// REST and aggregated streams are not concerned. Default false.
func WithOrderAcrossStreams(on bool) Option {
	return func(c *config) error { c.together = on; return nil }
}

// WithRequireNode refuses clients whose first request has no node (XS-07).
func WithRequireNode(on bool) Option {
	return func(c *config) error { c.requireNode = on; return nil }
}

// WithCanary sets the canary flag of SotW responses (XS-95). Default false.
func WithCanary(on bool) Option {
	return func(c *config) error { c.canary = on; return nil }
}

// WithResourceErrors reports missing names as NOT_FOUND in resource_errors
// (XS-88). Default false: old clients know only removed_resources.
func WithResourceErrors(on bool) Option {
	return func(c *config) error { c.errors = on; return nil }
}

// WithAlwaysFirst sends a SotW wildcard its first state even if the client
// says that it has this version (XS-27). Default false.
func WithAlwaysFirst(on bool) Option {
	return func(c *config) error { c.alwaysFirst = on; return nil }
}

// WithEmptyAssignments answers SotW requests for a ClusterLoadAssignment that
// does not exist with an empty one (XS-78). Default false.
func WithEmptyAssignments(on bool) Option {
	return func(c *config) error { c.emptyCLA = on; return nil }
}

// WithExtensionRemoval lets the removal of an extension configuration reach
// clients although a listener or cluster still refers to it (XS-66). Default
// false.
func WithExtensionRemoval(on bool) Option {
	return func(c *config) error { c.dropECDS = on; return nil }
}

// WithConverter sets the rewriting for clients that need TypedStruct (XS-82).
// Without one their subscriptions get resource errors.
func WithConverter(f ConvertFunc) Option {
	return func(c *config) error { c.convert = f; return nil }
}

// WithDeny sets who may have what within a group. Default: every node of a
// group may have all of it. Streams share fewer encodings with it.
func WithDeny(f DenyFunc) Option {
	return func(c *config) error { c.deny = f; return nil }
}

// WithKeepalive sets the life of connections.
func WithKeepalive(k Keepalive) Option {
	return func(c *config) error { c.keepalive = k; return nil }
}

// WithEnvoyQuirks adapts to what released Envoys do where it differs from the
// protocol: a route table or an extension configuration that does not exist is
// not reported as removed, since Envoy would wait for it for ever (XS-56); a
// first request for virtual hosts without a name is answered with the removal of
// one that cannot be, "<route configuration>/", since Envoy would wait 15 s for
// another answer than an empty one (XN-22); an extension configuration is not
// removed while Envoy subscribes to it, since its draining filter chains would
// answer 500 (XS-66). It concerns only clients whose user agent is
// "envoy". Default true.
func WithEnvoyQuirks(on bool) Option {
	return func(c *config) error { c.envoyQuirks = on; return nil }
}

// WithPerTypeStatus fills the deprecated field xds_config of client status (CSDS)
// as well, which holds a dump for each type (XD-09). In v2 it is always filled.
// Default false.
func WithPerTypeStatus(on bool) Option {
	return func(c *config) error { c.perType = on; return nil }
}

// WithRESTHold holds a poll over REST that brings no change for up to d, and
// answers it as soon as there is one (XR-04). It has to be shorter than the
// clients' request_timeout, which is 1 s by default. Default 0: every poll is
// answered at once. At most 5 minutes.
func WithRESTHold(d time.Duration) Option {
	return func(c *config) error {
		if d < 0 || d > MaxRESTHold {
			return fmt.Errorf("xdsserver: a poll can be held for 0 to %s, not %s", MaxRESTHold, d)
		}
		c.restHold = d
		return nil
	}
}

// MaxRESTHold is how long a poll can be held.
const MaxRESTHold = 5 * time.Minute

// WithRESTEmptyMeansAll gives a poll over REST without resource names all
// resources of a type without a wildcard too (XR-06). Default false: such a
// poll gets none.
func WithRESTEmptyMeansAll(on bool) Option {
	return func(c *config) error { c.restAll = on; return nil }
}
