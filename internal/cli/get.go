package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/xebec-proxy/xebec/internal/app/configdump"
	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/xds"
)

const getHelp = `Asks any xDS server for resources once, as a client would, and prints them: all of a TYPE, or those of the NAMEs.
TYPE is a word (clusters), an API (cds) or a type URL. Types that have no wildcard, such as routes and endpoints, need names.
Secrets are blanked. If something asked for is missing the exit code is 1, and what came is printed all the same.

With -f the resources are those of a saved config dump (what /config_dump of Envoy or of xebec proxy answers, endpoints
only with ?include_eds): what is in force, of the bootstrap too, or is on the way to be.`

type getFlags struct {
	askFlags
	output
	timeout time.Duration
	file    string
	// askNames are the flags that concern a server.
	askNames []string
}

func newGet(p *Process) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:   "get TYPE [NAME…]",
		Short: "Ask an xDS server for resources, once",
		Long:  getHelp,
		Example: `  xebec get clusters
  xebec get endpoints web api -o yaml
  xebec get listener --variant sotw --node-id edge-1
  xebec get cds --server xds.example.com:443 --tls -o name
  curl -s 127.0.0.1:9901/config_dump > dump.json && xebec get routes -f dump.json -o yaml`,
		ValidArgsFunction: completeType,
		RunE:              asking(func(ctx context.Context, t xds.Type, names []string) error { return f.run(ctx, p, t, names) }),
	}
	cmd.Flags().SortFlags = false
	f.askFlags.flags(cmd)
	cmd.Flags().VisitAll(func(fl *pflag.Flag) { f.askNames = append(f.askNames, fl.Name) })
	f.output.flag(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the server's answer")
	cmd.Flags().StringVarP(&f.file, "file", "f", "", "read a config dump from this `file` instead of asking a server")
	return cmd
}

func (f *getFlags) run(ctx context.Context, p *Process, t xds.Type, names []string) error {
	if f.timeout <= 0 {
		return usageErrorf("--timeout must be longer than 0")
	}
	list, err := f.list(ctx, t, names)
	if len(list) > 0 || err == nil {
		if e := f.show(p, t, list); e != nil {
			return e
		}
	}
	return err
}

// list are the resources that were asked for, of a file or of the server.
func (f *getFlags) list(ctx context.Context, t xds.Type, names []string) (list []follow.Resource, err error) {
	if f.file != "" {
		return f.dumped(t, names)
	}
	if names, err = follow.Names(t, names); err != nil {
		return nil, usageErrorf("%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err = f.with(func(o follow.Options) (err error) {
		list, err = follow.Get(ctx, o, t, names)
		return err
	})
	return list, err
}

// dumped are the resources of a config dump.
func (f *getFlags) dumped(t xds.Type, names []string) ([]follow.Resource, error) {
	var foreign []string
	for _, name := range f.askNames {
		if f.given(name) {
			foreign = append(foreign, "--"+name)
		}
	}
	if len(foreign) > 0 {
		return nil, usageErrorf("-f reads a file and asks nobody: leave out %s", strings.Join(foreign, ", "))
	}
	return configdump.Get(f.file, t, names)
}

func (f *getFlags) show(p *Process, t xds.Type, list []follow.Resource) error {
	answer := struct {
		Resources []follow.Resource `json:"resources"`
	}{list}
	if list == nil {
		answer.Resources = []follow.Resource{}
	}
	return f.print(p, answer, func(tab *table) {
		tab.row("NAME", "VERSION", "BYTES")
		for _, r := range list {
			tab.row(r.Name, r.Version, strconv.Itoa(r.Bytes))
		}
	}, func() []string {
		var names []string
		for _, r := range list {
			names = append(names, t.Kind+"/"+r.Name)
		}
		return names
	})
}
