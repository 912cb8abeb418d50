// Package follow asks an xDS server for resources, once or for as long as they
// change, and tells what came.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xebec-proxy/xebec/internal/redact"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
)

// Options say whom to ask, and as whom.
type Options struct {
	// Transport makes the way to the server; each question takes one.
	Transport func() (xdsclient.Transport, error)
	// Server is its name, for errors.
	Server string
	Node   *corev3.Node
	// Delta asks in the delta variant, PerType on a stream of the type's own
	// instead of ADS.
	Delta, PerType bool
	// Wait is how long after it was asked for a resource is said not to exist.
	// In the state-of-the-world variant only silence says so.
	Wait time.Duration
	// Reject is a reason to reject everything with; empty to accept it.
	Reject string
}

// Resource is a resource as it came.
type Resource struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	TypeURL string `json:"type_url"`
	Bytes   int    `json:"bytes"`
	// Content is the resource as JSON with its "@type", secrets blanked; or its
	// bytes in base64 if this program does not know the type.
	Content json.RawMessage `json:"resource,omitempty"`
}

// Kinds of events.
const (
	// Changed: it is new or differs from the one before.
	Changed = "changed"
	// Missing: it does not exist, or does not any more.
	Missing = "missing"
	// Rejected: it was refused.
	Rejected = "rejected"
	// Failed: something else is wrong; what came before still holds.
	Failed = "failed"
	// Recovered: nothing is wrong any more.
	Recovered = "recovered"
)

// Event is what happened to a resource.
type Event struct {
	Time     time.Time `json:"time"`
	Kind     string    `json:"event"`
	Name     string    `json:"name"`
	Resource *Resource `json:"changed,omitempty"`
	// Error says what is wrong.
	Error string `json:"error,omitempty"`
}

var errRejected = errors.New("rejected")

// kept is a resource in the form that watches deliver.
type kept struct{ body []byte }

func (o *Options) source(ctx context.Context) (*xdsclient.Source, error) {
	t, err := o.Transport()
	if err != nil {
		return nil, err
	}
	return xdsclient.NewSource(ctx, xdsclient.Config{ //nolint:wrapcheck // it says what is wrong
		Node: o.Node, Delta: o.Delta, PerType: o.PerType, ResourceTimeout: o.Wait,
		Servers: []xdsclient.Server{{Name: o.Server, Transport: t}}, AnyAuthority: true, // people have chosen the server
	})
}

func (o *Options) kind(t xds.Type) xdsclient.Type[kept] {
	return xdsclient.Type[kept]{Type: t, Decode: func(_ string, body []byte) (kept, error) {
		if o.Reject != "" {
			return kept{}, fmt.Errorf("%w: %s", errRejected, o.Reject)
		}
		return kept{slices.Clone(body)}, nil
	}}
}

// Names are the names to ask for: those given, or everything of a type that can
// be asked for as a whole. The error says that names are needed.
func Names(t xds.Type, names []string) ([]string, error) {
	if len(names) > 0 {
		return names, nil
	}
	if !t.Wildcard {
		return nil, fmt.Errorf("resources of %s are asked for by their names: give some", t.Kind)
	}
	return []string{xdsclient.Wildcard}, nil
}

// Watch tells of resources until ctx ends.
func Watch(ctx context.Context, o Options, t xds.Type, names []string, tell func(Event)) error {
	s, err := o.source(ctx)
	if err != nil {
		return err
	}
	say := func(kind, name string, r *Resource, err error) {
		e := Event{Time: time.Now(), Kind: kind, Name: name, Resource: r}
		if err != nil {
			e.Error = err.Error()
		}
		tell(e)
	}
	w := xdsclient.Funcs[kept]{
		Change: func(u xdsclient.Update[kept]) {
			say(Changed, u.Name, NewResource(u.Name, u.Version, t.URL, u.Value.body), nil)
		},
		Error: func(name string, err error) { say(kindOf(err), name, nil, err) },
		AmbientError: func(name string, err error) {
			if err == nil {
				say(Recovered, name, nil, nil)
				return
			}
			say(kindOf(err), name, nil, err)
		},
	}
	for _, name := range names {
		defer xdsclient.Watch(s, o.kind(t), name, w)()
	}
	<-ctx.Done()
	return s.Close() //nolint:wrapcheck // it says what is wrong
}

func kindOf(err error) string {
	switch {
	case errors.Is(err, xdsclient.ErrRejected):
		return Rejected
	case errors.Is(err, xdsclient.ErrMissing):
		return Missing
	}
	return Failed
}

// NewResource is a resource to be shown, of its bytes.
func NewResource(name, version, typeURL string, body []byte) *Resource {
	r := &Resource{Name: name, Version: version, TypeURL: typeURL, Bytes: len(body)}
	m, err := (&anypb.Any{TypeUrl: typeURL, Value: body}).UnmarshalNew()
	if err == nil {
		redact.Message(m.ProtoReflect())
		var a *anypb.Any
		if a, err = anypb.New(m); err == nil {
			r.Content, err = protojson.MarshalOptions{UseProtoNames: true}.Marshal(a)
		}
	}
	if err != nil {
		r.Content, _ = json.Marshal(body) // bytes cannot fail
	}
	return r
}
