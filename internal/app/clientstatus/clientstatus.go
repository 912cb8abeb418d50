// Package clientstatus asks who holds what, by CSDS
// (envoy/service/status/v3/csds.proto): a management server of all its clients,
// or a client, such as a proxy, of itself.
package clientstatus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/xds"
)

// States of a resource at a client (XD-02), the worst first.
const (
	Error   = "ERROR"
	NotSent = "NOT_SENT"
	Stale   = "STALE"
	Synced  = "SYNCED"
	Unknown = "UNKNOWN"
)

// States of a resource in the words of a client (XD-04). Static is our own: the
// resource is in the client's bootstrap.
const (
	Nacked        = "NACKED"
	ReceivedError = "RECEIVED_ERROR"
	TimedOut      = "TIMEOUT"
	DoesNotExist  = "DOES_NOT_EXIST"
	Requested     = "REQUESTED"
	Acked         = "ACKED"
	Static        = "STATIC"
)

// States lists all states, the worst first.
func States() []string {
	return []string{
		Error, Nacked, ReceivedError, TimedOut, NotSent, DoesNotExist, Stale, Requested, Synced, Acked, Static, Unknown,
	}
}

// Good reports whether a state is that of a resource that its client holds as it
// should.
func Good(state string) bool { return state == Synced || state == Acked || state == Static }

// rejected reports whether a state is that of a resource that its client refused.
func rejected(state string) bool { return state == Error || state == Nacked }

// maxAnswer bounds the server's answer; with thousands of clients it is long.
const maxAnswer = 256 << 20

// Client is one stream of a client, as a server sees it, or one source of a
// client, as that sees itself.
type Client struct {
	Node      string `json:"node"`
	Cluster   string `json:"cluster"`
	UserAgent string `json:"user_agent,omitempty"`
	// Group, Variant, Aggregated and Stream are what a Xebec server adds; other
	// servers leave them empty.
	Group      string `json:"group,omitempty"`
	Variant    string `json:"variant,omitempty"`
	Aggregated bool   `json:"aggregated"`
	Stream     string `json:"stream,omitempty"`
	// Own says that a client speaks of itself. Source is then where the resources
	// are from: a server, a file, the client's bootstrap, or a target of gRPC.
	Own    bool   `json:"own,omitempty"`
	Source string `json:"source,omitempty"`
	Types  []Type `json:"types"`
}

// Type is the state of one resource type at a client.
type Type struct {
	TypeURL string `json:"type_url"`
	Kind    string `json:"kind"`
	// State is the worst of the resources' states.
	State     string         `json:"state"`
	Counts    map[string]int `json:"counts"`
	Resources []Resource     `json:"resources"`
}

// Resource is the state of one resource at a client.
type Resource struct {
	Name    string     `json:"name"`
	State   string     `json:"state"`
	Version string     `json:"version,omitempty"`
	Updated *time.Time `json:"updated,omitempty"`
	// Reason is why the client rejected it, and where it came from.
	Reason string `json:"reason,omitempty"`
}

var errNoService = errors.New("it does not tell its status (CSDS); of Envoy save /config_dump and read it with xebec get -f")

// Fetch asks for the clients with a node ID, or for all if it is empty. They
// are sorted by node, then stream or source.
func Fetch(ctx context.Context, conn grpc.ClientConnInterface, node string) ([]Client, error) {
	req := &statusv3.ClientStatusRequest{ExcludeResourceContents: true}
	if node != "" {
		req.NodeMatchers = []*matcherv3.NodeMatcher{{NodeId: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: node},
		}}}
	}
	csds := statusv3.NewClientStatusDiscoveryServiceClient(conn)
	resp, err := csds.FetchClientStatus(ctx, req, grpc.MaxCallRecvMsgSize(maxAnswer))
	if status.Code(err) == codes.InvalidArgument && node != "" { // a client, which knows no other nodes (gRFC A40)
		req.NodeMatchers = nil
		resp, err = csds.FetchClientStatus(ctx, req, grpc.MaxCallRecvMsgSize(maxAnswer))
	}
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil, errNoService
	case err != nil:
		return nil, fmt.Errorf("asking for the clients' status: %w", err)
	}
	clients := []Client{}
	for _, c := range resp.GetConfig() {
		if node == "" || c.GetNode().GetId() == node {
			clients = append(clients, read(c))
		}
	}
	slices.SortStableFunc(clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(len(a.Stream), len(b.Stream)), cmp.Compare(a.Stream, b.Stream))
	})
	return clients, nil
}

// stateOf is a resource's state, in the words of who speaks.
func stateOf(g *statusv3.ClientConfig_GenericXdsConfig) string {
	switch {
	case g.GetIsStaticResource():
		return Static
	case g.GetClientStatus() != adminv3.ClientResourceStatus_UNKNOWN:
		return g.GetClientStatus().String()
	}
	return g.GetConfigStatus().String()
}

func read(c *statusv3.ClientConfig) Client {
	out := Client{Node: c.GetNode().GetId(), Cluster: c.GetNode().GetCluster(), UserAgent: agent(c.GetNode()), Types: []Type{}}
	out.Own = slices.ContainsFunc(c.GetGenericXdsConfigs(), func(g *statusv3.ClientConfig_GenericXdsConfig) bool {
		return g.GetIsStaticResource() || g.GetClientStatus() != adminv3.ClientResourceStatus_UNKNOWN
	})
	out.scope(c.GetClientScope())
	at := map[string]int{}
	for _, g := range c.GetGenericXdsConfigs() {
		i, ok := at[g.GetTypeUrl()]
		if !ok {
			i = len(out.Types)
			at[g.GetTypeUrl()] = i
			out.Types = append(out.Types, Type{TypeURL: g.GetTypeUrl(), Kind: xds.Kind(g.GetTypeUrl()), Counts: map[string]int{}})
		}
		t := &out.Types[i]
		r := Resource{
			Name: g.GetName(), State: stateOf(g), Version: g.GetVersionInfo(),
			Reason: g.GetErrorState().GetDetails(),
		}
		if g.GetLastUpdated() != nil {
			when := g.GetLastUpdated().AsTime()
			r.Updated = &when
		}
		t.Resources = append(t.Resources, r)
		t.Counts[r.State]++
	}
	for i := range out.Types {
		t := &out.Types[i]
		worst := slices.IndexFunc(States(), func(s string) bool { return t.Counts[s] > 0 })
		t.State = States()[max(worst, 0)]
	}
	return out
}

func agent(n *corev3.Node) string {
	v := n.GetUserAgentVersion()
	if b := n.GetUserAgentBuildVersion().GetVersion(); b != nil {
		v = fmt.Sprintf("%d.%d.%d", b.GetMajorNumber(), b.GetMinorNumber(), b.GetPatch())
	}
	return strings.TrimSpace(n.GetUserAgentName() + " " + v)
}

// scope reads the client_scope of a Xebec server, "group=G variant=V ads=B
// stream=N", or of a Xebec proxy, "source=S variant=V ads=B". Group and source may
// hold spaces, so they are what is left. Of another client all of it is its source.
func (c *Client) scope(s string) {
	rest, stream, ofStream := cutLast(s, " stream=")
	rest, ads, _ := cutLast(rest, " ads=")
	rest, variant, _ := cutLast(rest, " variant=")
	group, ofServer := strings.CutPrefix(rest, "group=")
	source, ofProxy := strings.CutPrefix(rest, "source=")
	switch {
	case ofStream && ofServer:
		c.Group, c.Variant, c.Aggregated, c.Stream = group, variant, ads == "true", stream
	case ofProxy && !ofStream:
		c.Own, c.Source, c.Variant, c.Aggregated = true, source, variant, ads == "true"
	case c.Own:
		c.Source = s
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
