package cli

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/xebec-proxy/xebec/internal/app/clientstatus"
)

const statusHelp = `Shows who is connected to the management server and what each client holds, by CSDS: a row for each
stream, with its group, its variant, and for each resource type one of

  SYNCED    everything has been sent and accepted
  STALE     something has been sent and not answered yet
  NOT_SENT  something is subscribed to and has not been sent (it does not exist, or waits for something else)
  ERROR     something was rejected; the reason follows, with the file and line it came from

--server may also be a client that tells of itself: the admin address of a xebec proxy, or a gRPC program that serves
CSDS. Then there is a row for each of its sources, and the states are ACKED, REQUESTED (nothing has come yet), NACKED,
DOES_NOT_EXIST, RECEIVED_ERROR and TIMEOUT, and STATIC for what is in its bootstrap.

With a NODE only its streams are shown, with every resource.`

type statusFlags struct {
	dialFlags
	output
	watch    bool
	interval time.Duration
	timeout  time.Duration
}

func newStatus(p *Process) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [NODE]",
		Short: "Show the clients and what they hold",
		Long:  statusHelp,
		Example: `  xebec status
  xebec status edge-1
  xebec status --watch
  xebec status --server 127.0.0.1:9901
  xebec status -o json | jq '.clients[] | select(.types[].state == "ERROR") | .node'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageErrorf("%s takes one NODE at most, and there are %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			node := ""
			if len(args) == 1 {
				node = args[0]
			}
			return f.run(cmd.Context(), p, node)
		},
	}
	cmd.Flags().SortFlags = false
	f.dialFlags.flags(cmd)
	f.output.flag(cmd)
	cmd.Flags().BoolVar(&f.watch, "watch", false, "go on, and print again what has changed")
	cmd.Flags().DurationVar(&f.interval, "interval", time.Second, "how often to ask, with --watch")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for the server's answer")
	return cmd
}

func (f *statusFlags) run(ctx context.Context, p *Process, node string) error {
	if f.interval <= 0 || f.timeout <= 0 {
		return usageErrorf("--interval and --timeout must be longer than 0")
	}
	conn, err := f.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if f.watch {
		return f.follow(ctx, p, conn, node)
	}
	clients, err := f.fetch(ctx, conn, node)
	if err != nil {
		return err
	}
	return f.show(p, clients, node != "")
}

func (f *statusFlags) fetch(ctx context.Context, conn *grpc.ClientConn, node string) ([]clientstatus.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	clients, err := clientstatus.Fetch(ctx, conn, node)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; is it running there, and does it speak TLS?", f.server, err)
	}
	return clients, nil
}

// follow prints the status whenever it has changed, until it is interrupted.
func (f *statusFlags) follow(ctx context.Context, p *Process, conn *grpc.ClientConn, node string) error {
	var last []clientstatus.Client
	ticker := time.NewTicker(f.interval)
	defer ticker.Stop()
	for {
		clients, err := f.fetch(ctx, conn, node)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			fmt.Fprintf(p.Stderr, "xebec: %v\n", err)
		} else if last == nil || !reflect.DeepEqual(last, clients) {
			if isTerminal(p.Stdout) {
				_, _ = io.WriteString(p.Stdout, "\x1b[H\x1b[2J")
			}
			if err := f.show(p, clients, node != ""); err != nil {
				return err
			}
			last = clients
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (f *statusFlags) show(p *Process, clients []clientstatus.Client, detail bool) error {
	rows := func(t *table) { f.clientRows(t, clients) }
	if detail {
		rows = func(t *table) { resourceRows(t, clients) }
	}
	names := func() []string {
		var l []string
		for _, c := range clients {
			l = append(l, c.Node)
		}
		return l
	}
	if len(clients) == 0 && (f.format == formatTable || f.format == formatWide) {
		fmt.Fprintln(p.Stderr, "no clients are connected")
	}
	return f.print(p, map[string]any{"clients": clients}, rows, names)
}

func (f *statusFlags) clientRows(t *table, clients []clientstatus.Client) {
	head := []string{"NODE", from(clients), "VARIANT", "TYPE", "STATE", "RESOURCES", "REASON"}
	if f.wide() {
		head = append([]string{"STREAM", "ADS", "CLUSTER", "AGENT"}, head...)
	}
	t.row(head...)
	for _, c := range clients {
		types := c.Types
		if len(types) == 0 {
			types = []clientstatus.Type{{Kind: "-", State: "-"}}
		}
		for _, ty := range types {
			cells := []string{orDash(c.Node), orDash(c.Group + c.Source), orDash(c.Variant), ty.Kind, ty.State, counts(ty), orDash(firstReason(ty))}
			if f.wide() {
				cells = append([]string{orDash(c.Stream), fmt.Sprint(c.Aggregated), orDash(c.Cluster), orDash(c.UserAgent)}, cells...)
			}
			t.row(cells...)
		}
	}
}

// from is the head of the column that says where a client's resources are from:
// servers know a group, clients a source.
func from(clients []clientstatus.Client) string {
	for _, c := range clients {
		if c.Own {
			return "SOURCE"
		}
	}
	return "GROUP"
}

func resourceRows(t *table, clients []clientstatus.Client) {
	t.row("STREAM", from(clients), "VARIANT", "TYPE", "NAME", "STATE", "VERSION", "REASON")
	for _, c := range clients {
		for _, ty := range c.Types {
			for _, r := range ty.Resources {
				t.row(orDash(c.Stream), orDash(c.Group+c.Source), orDash(c.Variant), ty.Kind, r.Name, r.State, orDash(r.Version), orDash(oneLine(r.Reason)))
			}
		}
	}
}

// counts is how many resources there are: "3", or "2/3" if not all are as they
// should be.
func counts(t clientstatus.Type) string {
	total, good := len(t.Resources), 0
	for state, n := range t.Counts {
		if clientstatus.Good(state) {
			good += n
		}
	}
	if good != total {
		return fmt.Sprintf("%d/%d", good, total)
	}
	return fmt.Sprint(total)
}

// firstReason is the reason of the first rejected resource.
func firstReason(t clientstatus.Type) string {
	for _, r := range t.Resources {
		if r.Reason != "" {
			return r.Name + ": " + oneLine(r.Reason)
		}
	}
	return ""
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
