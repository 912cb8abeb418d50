package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/follow"
	"github.com/xebec-proxy/xebec/xds"
)

const watchHelp = `Subscribes to resources of any xDS server, as a client would, and prints each change until it is interrupted: a line for
what happened, and how the resource differs from the one before. TYPE and NAMEs are as for "xebec get".

With --nack everything is rejected with that reason, to see what the server, its logs and "xebec status" make of it.
With -o json each event is one line of JSON.`

type watchFlags struct {
	askFlags
	format string
	nack   string
}

func newWatch(p *Process) *cobra.Command {
	f := watchFlags{format: formatTable}
	cmd := &cobra.Command{
		Use:   "watch TYPE [NAME…]",
		Short: "Follow resources of an xDS server, and print each change",
		Long:  watchHelp,
		Example: `  xebec watch clusters
  xebec watch endpoints web
  xebec watch clusters --nack "not on a Friday"
  xebec watch routes main -o json | jq -r .event`,
		ValidArgsFunction: completeType,
		RunE:              asking(func(ctx context.Context, t xds.Type, names []string) error { return f.run(ctx, p, t, names) }),
	}
	cmd.Flags().SortFlags = false
	f.askFlags.flags(cmd)
	cmd.Flags().StringVar(&f.nack, "nack", "", "reject everything, for this `reason`")
	cmd.Flags().StringVarP(&f.format, "output", "o", "text", "`text|json`")
	return cmd
}

func (f *watchFlags) run(ctx context.Context, p *Process, t xds.Type, names []string) error {
	show := newChanges(p.Stdout, t)
	tell := show.text
	switch f.format {
	case formatJSON:
		tell = show.json
	case "text":
	default:
		return usageErrorf("-o %q is neither text nor json", f.format)
	}
	names, err := follow.Names(t, names)
	if err != nil {
		return usageErrorf("%w", err)
	}
	return f.with(func(o follow.Options) error {
		o.Reject = f.nack
		return follow.Watch(ctx, o, t, names, tell)
	})
}

// changes prints events. Its methods are called one at a time.
type changes struct {
	w      io.Writer
	t      xds.Type
	before map[string]string // YAML of what came last
}

func newChanges(w io.Writer, t xds.Type) *changes {
	return &changes{w: w, t: t, before: map[string]string{}}
}

func (c *changes) json(e follow.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		line, _ = json.Marshal(map[string]string{"error": err.Error()})
	}
	fmt.Fprintf(c.w, "%s\n", line)
}

func (c *changes) text(e follow.Event) {
	_, known := c.before[e.Name]
	what, version := e.Kind, ""
	if e.Kind == follow.Changed && !known {
		what = "is there"
	}
	if e.Resource != nil && e.Resource.Version != "" {
		version = ", version " + e.Resource.Version
	}
	fmt.Fprintf(c.w, "%s %s %s %s%s\n", e.Time.Format("15:04:05.000"), c.t.Kind, e.Name, what, version)
	if e.Error != "" {
		fmt.Fprintf(c.w, "  %s\n", e.Error)
	}
	switch e.Kind {
	case follow.Changed:
		var b bytes.Buffer
		if err := writeYAML(&b, e.Resource.Content); err != nil {
			fmt.Fprintf(c.w, "  it cannot be shown: %v\n", err)
			return
		}
		c.diff(e.Name, b.String())
	case follow.Missing:
		delete(c.before, e.Name)
	}
}

// diff prints what differs from the last content of a resource, or all of it.
func (c *changes) diff(name, now string) {
	was, known := c.before[name]
	c.before[name] = now
	if !known {
		fmt.Fprint(c.w, "  ", strings.ReplaceAll(strings.TrimSuffix(now, "\n"), "\n", "\n  "), "\n")
		return
	}
	if text, err := unified(was, now); err == nil {
		fmt.Fprint(c.w, text)
	}
}

// unified is how two texts differ, in the form that diff -u has made usual;
// empty if they do not.
func unified(before, after string) (string, error) {
	edits := udiff.Strings(before, after)
	if len(edits) == 0 {
		return "", nil
	}
	text, err := udiff.ToUnified("before", "after", before, edits, 3)
	if err != nil {
		return "", fmt.Errorf("comparing: %w", err)
	}
	return text, nil
}
