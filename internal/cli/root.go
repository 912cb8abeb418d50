package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/proxyrun"
)

// Process is what the program gets from the system.
type Process struct {
	// Args are the arguments without the program's name.
	Args           []string
	Stdout, Stderr io.Writer
	LookupEnv      func(string) (string, bool)
	// BuildProxy makes the proxy of xebec proxy; nil if this program only checks
	// configuration. ProxyExtensions are the messages that configure extensions
	// which the program adds to it.
	BuildProxy      proxyrun.Build
	ProxyExtensions []string
}

// Main runs the program until it is done or ctx ends, and returns its exit
// code. Results go to Stdout, everything else to Stderr.
func Main(ctx context.Context, p Process) int {
	root := newRoot(&p) //nolint:contextcheck // commands get it when they are executed
	root.SetArgs(p.Args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	code := exitCode(err)
	if _, silent := errors.AsType[*silentError](err); !silent {
		fmt.Fprintf(p.Stderr, "xebec: %v\n", err)
	}
	if code == ExitUsage {
		fmt.Fprintf(p.Stderr, "Run '%s --help' for what can be given and for examples.\n", cmd.CommandPath())
	}
	return code
}

const rootHelp = `Xebec serves Envoy and gRPC clients their configuration (xDS) from a directory of files,
and runs Envoy's configuration as a proxy.

See it work:          xebec demo --once
Check files:          xebec validate ./xds
Serve them:           xebec serve --dir ./xds
Start an Envoy:       xebec bootstrap envoy > envoy.yaml && envoy -c envoy.yaml
Who has what:         xebec status
Ask as a client:      xebec get clusters, xebec watch endpoints web
Wait for a change:    xebec wait --resource Cluster/web --for acked
Run as the proxy:     xebec proxy -c envoy.yaml
Who goes where:       xebec route explain envoy.yaml --host www.example.com --path /api

Every flag can also be given as an environment variable (--xds-address as XEBEC_XDS_ADDRESS) or in the file that
--config names (xds-address: under serve:). A flag wins over the environment, the environment over the file.

Exit codes: 0 it worked, 1 it failed, 2 wrong usage, 3 there are findings, 4 a condition was not reached in time.`

func newRoot(p *Process) *cobra.Command {
	root := &cobra.Command{
		Use:                        "xebec",
		Short:                      "A management server for xDS clients such as Envoy and gRPC, and a proxy that runs Envoy's configuration",
		Long:                       rootHelp,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		SilenceUsage:               true,
		Version:                    thisBuild().String(),
		Args:                       subcommandRequired,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	root.SetVersionTemplate("xebec {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageErrorf("%w", err) })
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveDefault)
	root.PersistentFlags().String("config", "", "YAML `file` with values for flags")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return settle(cmd, p.LookupEnv) }
	root.AddCommand(
		newServe(p), newDemo(p), newValidate(p), newStatus(p), newWait(p), newGet(p), newWatch(p), newDiff(p), newProxy(p), newRoute(p), newBootstrap(p), newVersion(p), newMan(p),
	)
	return root
}

// subcommandRequired refuses words that are no command, with the ones that
// look alike.
func subcommandRequired(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	msg := fmt.Sprintf("there is no command %q in %s", args[0], cmd.CommandPath())
	if alike := cmd.SuggestionsFor(args[0]); len(alike) > 0 {
		msg += "; did you mean " + strings.Join(alike, " or ") + "?"
	}
	return usageErrorf("%s", msg)
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageErrorf("%s takes no arguments, and %q is one", cmd.CommandPath(), args[0])
	}
	return nil
}
