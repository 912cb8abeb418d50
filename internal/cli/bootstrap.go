package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app"
	"github.com/xebec-proxy/xebec/internal/app/bootstrap"
)

func newBootstrap(p *Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Write the configuration that points a client to its management server",
		Example: `  xebec bootstrap envoy > envoy.yaml && envoy -c envoy.yaml
  xebec bootstrap grpc > xds.json && GRPC_XDS_BOOTSTRAP=xds.json ./my-client`,
		Args: subcommandRequired,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageErrorf("say for which client: %s envoy, or %s grpc", cmd.CommandPath(), cmd.CommandPath())
		},
	}
	cmd.AddCommand(newBootstrapEnvoy(p), newBootstrapGRPC(p))
	return cmd
}

func newBootstrapEnvoy(p *Process) *cobra.Command {
	var e bootstrap.Envoy
	var variant string
	cmd := &cobra.Command{
		Use:   "envoy",
		Short: "Write a bootstrap for Envoy, as YAML",
		Long: `Writes a bootstrap with which Envoy gets its listeners and clusters from the server.

With --ads (the default) everything comes on one stream, in the order that keeps traffic flowing; config sources in your
own resources are then "{ads: {}, resource_api_version: V3}". With --ads=false each type has a stream of its own.`,
		Example: `  xebec bootstrap envoy > envoy.yaml && envoy -c envoy.yaml
  xebec bootstrap envoy --server xds.example.com:18000 --tls-ca ca.pem --node-id edge-1 --node-cluster edge --variant delta`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			switch variant {
			case "sotw", "delta":
				e.Delta = variant == "delta"
			case "rest":
				return usageErrorf("--variant rest is not built yet; use sotw or delta")
			default:
				return usageErrorf("--variant %q is neither sotw nor delta", variant)
			}
			named(&e.Options, "envoy")
			text, err := e.YAML()
			return write(p, text, err)
		},
	}
	bootstrapFlags(cmd, &e.Options, "envoy")
	cmd.Flags().StringVar(&variant, "variant", "sotw", "sotw (state of the world) or delta")
	cmd.Flags().BoolVar(&e.Aggregated, "ads", true, "one stream for everything; false for one for each type")
	cmd.Flags().StringVar(&e.TLS.ServerName, "tls-server-name", "", "`name` in the server's certificate (default: the host of --server)")
	cmd.Flags().BoolVar(&e.LoadReports, "load-reports", false, "report traffic to the server (LRS)")
	cmd.Flags().IntVar(&e.AdminPort, "admin-port", 9901, "`port` of Envoy's admin pages on loopback; 0 for none")
	return cmd
}

func newBootstrapGRPC(p *Process) *cobra.Command {
	var o bootstrap.Options
	cmd := &cobra.Command{
		Use:   "grpc",
		Short: "Write a bootstrap for gRPC, as JSON",
		Long: `Writes the bootstrap file with which a gRPC program resolves xds:///NAME from the server: NAME is a Listener
with an api_listener. gRPC speaks the state of the world on one aggregated stream, so there is no choice of variant.`,
		Example: `  xebec bootstrap grpc > xds.json && GRPC_XDS_BOOTSTRAP=xds.json ./my-client
  xebec bootstrap grpc --server xds.example.com:18000 --tls-ca /etc/xds/ca.pem --node-id shop-1 --node-cluster shop`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			named(&o, "grpc")
			text, err := o.GRPC()
			return write(p, text, err)
		},
	}
	bootstrapFlags(cmd, &o, "grpc")
	return cmd
}

func bootstrapFlags(cmd *cobra.Command, o *bootstrap.Options, client string) {
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringVar(&o.Server, "server", app.DefaultXDSAddress, "`host:port` of the management server")
	fl.StringVar(&o.NodeID, "node-id", "", "`name` of this client (default: "+client+"- and this machine's name)")
	fl.StringVar(&o.NodeCluster, "node-cluster", client, "`name` of the group of clients it is one of")
	fl.StringVar(&o.TLS.CA, "tls-ca", "", "PEM `file` with the authority of the server's certificate; turns TLS on")
	fl.StringVar(&o.TLS.Cert, "tls-cert", "", "PEM `file` with the client's certificate")
	fl.StringVar(&o.TLS.Key, "tls-key", "", "PEM `file` with its private key")
	fl.BoolVar(&o.Insecure, "insecure", false, "allow plaintext to a server that is not on this machine")
}

// named gives a client without an id one.
func named(o *bootstrap.Options, client string) {
	if o.NodeID != "" {
		return
	}
	o.NodeID = client
	if host, err := os.Hostname(); err == nil {
		o.NodeID += "-" + host
	}
}

// write prints a bootstrap. What is wrong with one is wrong with the flags.
func write(p *Process, text []byte, err error) error {
	if err != nil {
		return &exitError{ExitUsage, err}
	}
	if _, err := p.Stdout.Write(text); err != nil {
		return fmt.Errorf("writing the bootstrap: %w", err)
	}
	return nil
}
