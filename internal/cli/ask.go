package cli

import (
	"context"
	"crypto/tls"
	"net/http"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/xds"
	"github.com/xebec-proxy/xebec/xdsclient"
	"github.com/xebec-proxy/xebec/xdsclient/rest"
)

// askFlags say what a client asks a server for, and who it says it is.
type askFlags struct {
	dialFlags
	variant  string
	ads      bool
	nodeID   string
	cluster  string
	metadata []string
	wait     time.Duration
	poll     time.Duration
	given    func(flag string) bool
}

func (f *askFlags) flags(cmd *cobra.Command) {
	f.dialFlags.flags(cmd)
	fl := cmd.Flags()
	f.given = fl.Changed
	fl.StringVar(&f.variant, "variant", "delta", "variant of the protocol: `sotw|delta|rest`")
	fl.BoolVar(&f.ads, "ads", true, "ask on the aggregated stream; --ads=false asks on one of the type's own, as --variant rest always does")
	fl.DurationVar(&f.poll, "poll-interval", time.Second, "how often to ask, at most, with --variant rest")
	fl.StringVar(&f.nodeID, "node-id", "xebec-cli", "`id` of the node to ask as; the server may choose by it what to send")
	fl.StringVar(&f.cluster, "node-cluster", "", "`cluster` of the node to ask as")
	fl.StringArrayVar(&f.metadata, "node-metadata", nil, "`key=value` of the node to ask as; may be repeated")
	fl.DurationVar(&f.wait, "wait", 2*time.Second, "how long a resource may be unheard of until it counts as missing")
}

// with runs something that asks the server.
func (f *askFlags) with(ask func(follow.Options) error) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	if f.variant == variantREST {
		tls, err := f.security()
		if err != nil {
			return err
		}
		o.Transport = func() (xdsclient.Transport, error) { return f.polling(tls) }
		return ask(o)
	}
	conn, err := f.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	o.Transport = func() (xdsclient.Transport, error) { return xdsclient.Conn(conn), nil }
	return ask(o)
}

const variantREST = "rest"

// pollTimeout bounds one poll; servers may hold them until something changes.
const pollTimeout = time.Minute

// polling is the way to a server over REST.
func (f *askFlags) polling(cfg *tls.Config) (xdsclient.Transport, error) {
	url := "http://" + f.server
	if cfg != nil {
		url = "https://" + f.server
		cfg = cfg.Clone()
	}
	t, err := rest.New(rest.Config{
		RefreshDelay: f.poll, RequestTimeout: pollTimeout,
		Targets: []rest.Target{{URL: url, RoundTripper: &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: cfg != nil, MaxIdleConnsPerHost: 1}}},
	})
	if err != nil {
		return nil, usageErrorf("--server: %w", err)
	}
	return t, nil
}

// options are what the flags say of the question.
func (f *askFlags) options() (follow.Options, error) {
	o := follow.Options{Server: f.server, PerType: !f.ads, Wait: f.wait}
	switch f.variant {
	case "delta":
		o.Delta = true
	case "sotw":
	case variantREST:
		if f.given("ads") && f.ads {
			return o, usageErrorf("--ads and --variant rest exclude each other: REST asks for one type at a time")
		}
		o.PerType = true
	default:
		return o, usageErrorf("--variant %q is none of sotw, delta and rest", f.variant)
	}
	switch {
	case f.given("poll-interval") && f.variant != variantREST:
		return o, usageErrorf("--poll-interval belongs to --variant rest: streams need no polling")
	case f.wait <= 0 || f.poll <= 0:
		return o, usageErrorf("--wait and --poll-interval must be longer than 0")
	}
	o.Node = &corev3.Node{Id: f.nodeID, Cluster: f.cluster}
	for _, m := range f.metadata {
		key, value, ok := strings.Cut(m, "=")
		if !ok || key == "" {
			return o, usageErrorf("--node-metadata %q is not of the form key=value", m)
		}
		if o.Node.Metadata == nil {
			o.Node.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		o.Node.Metadata.Fields[key] = structpb.NewStringValue(value)
	}
	return o, nil
}

// asking runs a command with the arguments TYPE [NAME…].
func asking(run func(ctx context.Context, t xds.Type, names []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		t, names, err := typeAndNames(cmd, args)
		if err != nil {
			return err
		}
		return run(cmd.Context(), t, names)
	}
}

// typeAndNames reads the arguments TYPE [NAME…].
func typeAndNames(cmd *cobra.Command, args []string) (xds.Type, []string, error) {
	if len(args) == 0 {
		return xds.Type{}, nil, usageErrorf("%s needs a TYPE, such as clusters or cds", cmd.CommandPath())
	}
	t, err := follow.ParseType(args[0])
	if err != nil {
		return t, nil, usageErrorf("%w", err)
	}
	return t, args[1:], nil
}

// completeType completes TYPE.
func completeType(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var words []string
	for _, w := range follow.Words() {
		if len(args) == 0 && strings.HasPrefix(w, strings.ToLower(prefix)) {
			words = append(words, w)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
