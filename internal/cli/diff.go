package cli

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/compare"
	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/xds"
)

const diffHelp = `Tells what changes from A to B, each a directory that xebec serve could read, or a file; or, with A alone, from what the
server sends to --node-id to what A says: what serving A would change for that client.

Of the server everything is asked for that can be asked for as a whole (listeners, clusters, scoped routes), and of the
rest what A has. A or B may also be a saved config dump (/config_dump of Envoy or of xebec proxy). Beside another one all of
it counts; else only what came by discovery does, without endpoints, which a dump shows as they have become.

Only content counts, not versions. Secrets are blanked, so that a change of key does not show.

The exit code is 3 if there is a difference.`

type diffFlags struct {
	askFlags
	output
	timeout time.Duration
}

func newDiff(p *Process) *cobra.Command {
	var f diffFlags
	cmd := &cobra.Command{
		Use:   "diff A [B]",
		Short: "Compare resource files, directories and what a server sends",
		Long:  diffHelp,
		Example: `  xebec diff ./xds ./xds.new
  xebec diff ./xds --server xds.example.com:443 --tls --node-id edge-1
  xebec diff ./xds dump.json
  xebec diff old.yaml new.yaml -o json | jq -r '.differences[].name'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageErrorf("%s takes A and B, or A alone to compare it with a server; there are %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), p, args) },
	}
	cmd.Flags().SortFlags = false
	f.askFlags.flags(cmd)
	f.output.flag(cmd)
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the server's answers")
	return cmd
}

func (f *diffFlags) run(ctx context.Context, p *Process, args []string) error {
	first, last, err := f.sets(ctx, args)
	if err != nil {
		return err
	}
	list := compare.Sets(first, last)
	if err := f.show(p, list); err != nil {
		return err
	}
	if len(list) > 0 {
		return &silentError{ExitFindings}
	}
	return nil
}

// sets are the two to be compared.
func (f *diffFlags) sets(ctx context.Context, args []string) (first, last compare.Set, err error) {
	if len(args) == 2 {
		return compare.Files(args[0], args[1])
	}
	err = f.with(func(o follow.Options) (err error) {
		if last, err = compare.ReadFor(args[0], xds.NodeFromProto(o.Node)); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		first, err = compare.Served(ctx, o, last)
		return err
	})
	return first, last, err
}

func (f *diffFlags) show(p *Process, list []compare.Difference) error {
	if f.format != formatTable && f.format != formatWide {
		answer := struct {
			Differences []compare.Difference `json:"differences"`
		}{append([]compare.Difference{}, list...)}
		return f.print(p, answer, nil, func() []string {
			var names []string
			for _, d := range list {
				names = append(names, xds.Kind(d.TypeURL)+"/"+d.Resource)
			}
			return names
		})
	}
	for _, d := range list {
		group := ""
		if d.Group != "" {
			group = " in group " + d.Group
		}
		fmt.Fprintf(p.Stdout, "%s %s %s%s\n", d.Kind, xds.Kind(d.TypeURL), d.Resource, group)
		if d.Kind != compare.Changed {
			continue
		}
		text, err := unified(yamlOf(d.Before), yamlOf(d.After))
		if err != nil {
			return err
		}
		fmt.Fprint(p.Stdout, text)
	}
	return nil
}

// yamlOf is a resource's content, for people.
func yamlOf(r *follow.Resource) string {
	var b bytes.Buffer
	if err := writeYAML(&b, r.Content); err != nil {
		return string(r.Content) + "\n"
	}
	return b.String()
}
