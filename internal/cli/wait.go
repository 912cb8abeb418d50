package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xebec-proxy/xebec/internal/app/check"
	"github.com/xebec-proxy/xebec/internal/app/clientstatus"
)

const waitHelp = `Blocks until every client that subscribes to a resource has accepted it (--for acked) or rejected it
(--for nacked), in the version the server has now. At least --clients have to subscribe to it. If that does not happen
within --timeout the exit code is 4, and what is missing is printed, with the clients' reasons.

With --file it waits for the resources of a file exactly as they are written there, so that it can follow an edit
at once: the server may not have seen it yet. Resources of the file that no client subscribes to do not count, but at
least one has to.`

const waitPoll = 50 * time.Millisecond

type waitFlags struct {
	dialFlags
	resources []string
	files     []string
	outcome   string
	clients   int
	timeout   time.Duration
}

func newWait(p *Process) *cobra.Command {
	var f waitFlags
	cmd := &cobra.Command{
		Use:   "wait --resource TYPE[/NAME]|--file FILE --for acked|nacked",
		Short: "Block until the clients have accepted, or rejected, a resource",
		Long:  waitHelp,
		Example: `  xebec wait --resource Cluster/web --for acked
  xebec wait --file xds/routes.yaml --for acked
  xebec wait --resource Listener --for acked --clients 3 --timeout 1m
  xebec wait --resource RouteConfiguration/main --for nacked`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), p) },
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.StringArrayVar(&f.resources, "resource", nil, "`TYPE/NAME`, or TYPE for all of a type, such as Cluster/web or CDS; may be repeated")
	fl.StringArrayVar(&f.files, "file", nil, "resource `file` whose content is waited for; may be repeated")
	fl.StringVar(&f.outcome, "for", "acked", "acked or nacked")
	fl.IntVar(&f.clients, "clients", 1, "how many clients have to subscribe to it, at least")
	fl.DurationVar(&f.timeout, "timeout", 30*time.Second, "how long to wait")
	f.dialFlags.flags(cmd)
	return cmd
}

func (f *waitFlags) conditions() ([]clientstatus.Condition, error) {
	if len(f.resources)+len(f.files) == 0 {
		return nil, usageErrorf("neither --resource nor --file is given: say what to wait for, such as Cluster/web")
	}
	if f.outcome != "acked" && f.outcome != "nacked" {
		return nil, usageErrorf("--for %q is neither acked nor nacked", f.outcome)
	}
	if f.timeout <= 0 {
		return nil, usageErrorf("--timeout must be longer than 0")
	}
	var l []clientstatus.Condition
	for _, r := range f.resources {
		typeURL, name, err := clientstatus.ParseResource(r)
		if err != nil {
			return nil, usageErrorf("--resource: %w", err)
		}
		l = append(l, clientstatus.Condition{TypeURL: typeURL, Name: name, Rejected: f.outcome == "nacked", Clients: f.clients})
	}
	return l, nil
}

// contents are the conditions of --file.
func (f *waitFlags) contents() ([]clientstatus.Condition, error) {
	resources, err := check.Resources(f.files)
	if err != nil {
		return nil, &exitError{ExitFindings, err}
	}
	var l []clientstatus.Condition
	for _, r := range resources {
		l = append(l, clientstatus.Condition{
			TypeURL: r.TypeURL(), Name: r.Name(), Version: r.Version(), Rejected: f.outcome == "nacked",
		})
	}
	if len(f.files) > 0 && len(l) == 0 {
		return nil, usageErrorf("there are no resources in %s", strings.Join(f.files, ", "))
	}
	return l, nil
}

func (f *waitFlags) run(ctx context.Context, p *Process) error {
	conditions, err := f.conditions()
	if err != nil {
		return err
	}
	contents, err := f.contents()
	if err != nil {
		return err
	}
	conn, err := f.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	what := strings.Join(append(f.resources, f.files...), ", ")
	began := time.Now()
	missing, err := f.poll(ctx, conn, conditions, contents)
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return &exitError{ExitNotYet, fmt.Errorf("%s is not %s after %v:\n  %s",
			what, f.outcome, f.timeout, strings.Join(missing, "\n  "))}
	}
	fmt.Fprintf(p.Stdout, "%s %s after %v\n", what, f.outcome, time.Since(began).Round(time.Millisecond))
	return nil
}

// poll asks until the conditions are met, and returns what is missing if they
// are not in time. A server that does not answer is a condition like others.
func (f *waitFlags) poll(ctx context.Context, conn *grpc.ClientConn, conditions, contents []clientstatus.Condition) ([]string, error) {
	limited, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	ticker := time.NewTicker(waitPoll)
	defer ticker.Stop()
	missing := []string{"the server has not answered"}
	for {
		clients, err := clientstatus.Fetch(limited, conn, "")
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("interrupted: %w", ctx.Err())
		case err == nil:
			missing = unmet(clients, conditions, contents)
		case status.Code(err) != codes.DeadlineExceeded: // the end of waiting says nothing new
			missing = []string{fmt.Sprintf("%s: %v", f.server, err)}
		}
		if len(missing) == 0 {
			return nil, nil
		}
		select {
		case <-limited.Done():
			return missing, nil
		case <-ticker.C:
		}
	}
}

// unmet is what is missing of all conditions, and of contents that anybody
// subscribes to any.
func unmet(clients []clientstatus.Client, conditions, contents []clientstatus.Condition) []string {
	var missing []string
	for _, c := range slices.Concat(conditions, contents) {
		missing = append(missing, c.Missing(clients)...)
	}
	subscribed := func(c clientstatus.Condition) bool { return c.Subscribed(clients) }
	if len(contents) > 0 && !slices.ContainsFunc(contents, subscribed) {
		missing = append(missing, "no client subscribes to any resource of the file")
	}
	return missing
}
