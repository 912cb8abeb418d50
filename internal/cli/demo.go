package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/demo"
)

const demoHelp = `Shows the whole system in one process, on loopback only: the management server on a few resource files, two servers
of a gRPC service, a gRPC client that finds them by xDS, and a proxy on delta ADS for clients that know nothing of it. It
explains each step as it happens.

With --once it sends requests, edits the routes twice, shows both accept each change and the traffic move, then edits
endpoints, a cluster and the listener under load, replaces the proxy's certificate while clients connect with TLS, says how
long all that took, and exits; the exit code is 1 if a change did not arrive or a request failed. Without it the demo goes
on until it is interrupted, for you to edit the files.

--dir serves a directory of yours. One that is empty or does not exist yet gets the files of examples/quickstart; without
--dir they are in a temporary directory. Ports that are taken are replaced by free ones, unless your files name them.`

func newDemo(p *Process) *cobra.Command {
	var o demo.Options
	var log logFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole system at work, in one process",
		Long:  demoHelp,
		Example: `  xebec demo --once
  xebec demo --dir ./greeter`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("log-level") && o.Once {
				log.level = "warn"
			}
			var err error
			if o.Log, err = log.logger(p.Stderr); err != nil {
				return err
			}
			o.Out, o.Version = p.Stdout, thisBuild().String()
			err = demo.Run(cmd.Context(), o)
			if errors.Is(err, demo.ErrNotFresh) {
				return &exitError{ExitUsage, err}
			}
			return err
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Once, "once", false, "show some changes and exit")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "`directory` to serve")
	log.flags(cmd)
	log.format = "text"
	return cmd
}
