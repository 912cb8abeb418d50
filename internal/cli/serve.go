package cli

import (
	"errors"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app"
	"github.com/xebec-proxy/xebec/xdsserver/loadreport"
)

const serveHelp = `Serves the resources in a directory of YAML, JSON or protobuf files to xDS clients (Envoy, gRPC): every
discovery service of the v3 protocol, aggregated (ADS) or a stream for each type, state of the world and delta, over
gRPC; and on the same port, as JSON over HTTP for clients that poll (REST), POST /v3/discovery:clusters and so on.
Files may be laid out in any way; groups.yaml says which nodes get which folders, and without it all get all.

The directory is watched. A change goes out at once; a resource that is wrong keeps its last good version, and the
log says file, line and what to do. A client that rejects a resource (NACK) makes one line in the log, with the
client, its reason and the file and line the resource came from.

Plaintext is served on loopback addresses only, unless --insecure is given. With --tls-client-ca every method of
every service needs a client certificate. TLS files are read again when they change.

The first SIGTERM or interrupt makes the server not ready, turns new clients away and ends the streams of the
present ones within --drain-time. The second one exits at once.`

type serveFlags struct {
	app.Settings
	log  logFlags
	etcd []string
}

func newServe(p *Process) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve --dir DIR",
		Short: "Serve a directory of resource files to xDS clients",
		Long:  serveHelp,
		Example: `  xebec serve --dir ./xds
  xebec serve --dir ./xds --xds-address 10.0.0.5:18000 --tls-cert server.pem --tls-key server-key.pem --tls-client-ca clients.pem
  XEBEC_DIR=./xds XEBEC_LOG_LEVEL=debug xebec serve`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, p) },
	}
	f.flags(cmd)
	return cmd
}

func (f *serveFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&f.Dir, "dir", "", "`directory` with the resource files (required)")
	fl.StringVar(&f.ExportDir, "export-dir", "", "keep files for clients that read files (path_config_source) below this `directory`, in a folder for each group")
	fl.BoolVar(&f.Lenient, "lenient", false, "serve resources that break a rule of their message, with a warning")
	fl.BoolVar(&f.Strict, "strict", false, "refuse resources that refer to something that is not there")
	fl.StringVar(&f.XDSAddress, "xds-address", app.DefaultXDSAddress, "`host:port` for xDS clients; port 0 takes a free one")
	fl.StringVar(&f.AdminAddress, "admin-address", app.DefaultAdminAddress, "`host:port` for health, metrics and status over HTTP; \"\" for none")
	fl.StringVar(&f.AddressFile, "address-file", "", "write the addresses that are listened on to this `file`")
	fl.StringVar(&f.TLSCert, "tls-cert", "", "PEM `file` with the server's certificate chain")
	fl.StringVar(&f.TLSKey, "tls-key", "", "PEM `file` with its private key")
	fl.StringVar(&f.TLSClientCA, "tls-client-ca", "", "PEM `file` with authorities; clients must show a certificate of one")
	fl.BoolVar(&f.Insecure, "insecure", false, "allow plaintext xDS on addresses that are not loopback")
	fl.BoolVar(&f.InsecureAdmin, "insecure-admin", false, "allow admin pages on addresses that are not loopback")
	fl.StringVar(&f.Identifier, "identifier", "", "`name` of this server in its responses (default \"xebec\")")
	fl.BoolVar(&f.NodeRequired, "node-required", false, "refuse clients whose first request has no node")
	fl.BoolVar(&f.OrderAcrossStreams, "order-across-streams", false, "keep the order of ADS among the streams of a node that opens one for each type")
	fl.DurationVar(&f.RESTHold, "rest-hold", 0, "hold a poll over REST that brings no change for up to so long; keep it below the clients' request_timeout")
	fl.BoolVar(&f.RESTEmptyMeansAll, "rest-empty-means-all", false, "answer polls over REST without names with all resources, for every type")
	fl.DurationVar(&f.DrainTime, "drain-time", app.DefaultDrainTime, "how long clients get to leave at the end")
	f.limitFlags(cmd)
	fl.DurationVar(&f.LoadInterval, "load-interval", loadreport.DefaultInterval, "how often clients that report their traffic (LRS) do so")
	fl.BoolVar(&f.Channelz, "channelz", false, "add gRPC's channelz service, for its diagnosis tools")
	fl.StringSliceVar(&f.etcd, "etcd", nil, "etcd `endpoints` instead of --dir (not built yet)")
	f.log.flags(cmd)
}

func (f *serveFlags) limitFlags(cmd *cobra.Command) {
	fl := cmd.Flags()
	l, k := &f.Limits, &f.Keepalive
	fl.IntVar(&l.MaxStreams, "max-streams", 0, "open streams at most; 0 for no limit")
	fl.IntVar(&l.MaxNames, "max-names", 0, "names in one subscription at most (default 250000)")
	fl.IntVar(&l.MaxRequestBytes, "max-request-bytes", 0, "size of one request at most (default 16 MiB)")
	fl.Float64Var(&l.StreamsPerSecond, "stream-rate", 0, "new streams per second at most; 0 for no limit")
	fl.IntVar(&l.StreamBurst, "stream-burst", 0, "new streams at once, with --stream-rate")
	fl.Float64Var(&l.RequestsPerSecond, "request-rate", 0, "requests per second on one stream at most; 0 for no limit")
	fl.IntVar(&l.RequestBurst, "request-burst", 0, "requests at once, with --request-rate")
	fl.DurationVar(&l.SendTimeout, "send-timeout", 0, "end a stream that takes nothing for so long; 0 for never")
	fl.DurationVar(&k.MaxAge, "max-connection-age", 0, "drain connections after so long, with 10% jitter; 0 for never")
	fl.DurationVar(&k.MaxAgeGrace, "max-connection-age-grace", 0, "how long their streams may go on; 0 for as long as they want")
}

func (f *serveFlags) run(cmd *cobra.Command, p *Process) error {
	if len(f.etcd) > 0 {
		return usageErrorf("--etcd is not built yet: this version serves a directory (--dir); keep the files in step with etcd by a tool of your own")
	}
	log, err := f.log.logger(p.Stderr)
	if err != nil {
		return err
	}
	f.Log, f.Version = log, thisBuild().String()
	m, err := app.New(cmd.Context(), f.Settings)
	if errors.Is(err, app.ErrSettings) {
		return &exitError{ExitUsage, err}
	}
	if err != nil {
		return err
	}
	return m.Run(cmd.Context())
}

// logFlags say what is logged and how.
type logFlags struct{ format, level string }

func (f *logFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.format, "log-format", "auto", "text, json, or auto: text on a terminal, json elsewhere")
	cmd.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error; debug has a line for each ACK")
}

func (f *logFlags) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, usageErrorf("--log-level %q is none of debug, info, warn and error", f.level)
	}
	opts := &slog.HandlerOptions{Level: level}
	format := f.format
	if format == "auto" {
		format = "json"
		if isTerminal(w) {
			format = "text"
		}
	}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, usageErrorf("--log-format %q is none of auto, text and json", f.format)
}
