package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

const referencePage = "../../docs/cli.md"

const referenceIntro = `# The command line

This page is written from the program's own help by ` + "`make golden`" + `; ` + "`xebec man`" + ` writes man pages.

## Conventions

- **Values**: a flag wins over the environment, the environment over the ` + "`--config`" + ` file, the file over the default.
  The variable of a flag is its name in capitals with ` + "`XEBEC_`" + ` before it: ` + "`--xds-address`" + ` is ` + "`XEBEC_XDS_ADDRESS`" + `. In the file,
  flags stand under their command: ` + "`serve: {dir: ./xds, strict: true}`" + `. A name that no command has is an error, with its line.
- **Output**: results go to standard output, everything else to standard error. ` + "`-o`" + ` takes ` + "`table`" + `, ` + "`wide`" + `, ` + "`json`" + `, ` + "`yaml`" + ` and ` + "`name`" + `.
  Tables are aligned and coloured on a terminal only (and not if ` + "`NO_COLOR`" + ` is set); elsewhere tabs separate their cells.
  In JSON, fields are added but not renamed or removed.
- **Logs**: text on a terminal, JSON elsewhere, or as ` + "`--log-format`" + ` says.
- **Exit codes**: 0 it worked, 1 it failed, 2 the command line, the environment or the ` + "`--config`" + ` file is wrong, 3 there are findings,
  4 a condition was not reached in time.
- **Security**: without TLS, ` + "`serve`" + ` listens on loopback only and the other commands call loopback only, unless ` + "`--insecure`" + ` is given.

## Admin pages

` + "`serve`" + ` answers on ` + "`--admin-address`" + ` (HTTP, GET and HEAD only): ` + "`/healthz`" + `, ` + "`/readyz`" + ` (503 until everything has been loaded, and while
stopping), ` + "`/metrics`" + ` for Prometheus, and as JSON ` + "`/api/v1/clients`" + ` (also ` + "`/api/v1/clients/{id}`" + `), ` + "`/api/v1/resources`" + ` (secrets are never
shown), ` + "`/api/v1/sources`" + `, ` + "`/api/v1/loads`" + ` and ` + "`/api/v1/events`" + `. ` + "`/`" + ` lists them. The xDS address also has gRPC's health and
reflection services, client status (CSDS) and load reporting (LRS).
`

// TestReference keeps docs/cli.md the same as the program's help.
func TestReference(t *testing.T) {
	root := newRoot(&Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: os.LookupEnv})
	var b strings.Builder
	b.WriteString(referenceIntro)
	describeCommands(&b, root)
	if *update {
		if err := os.WriteFile(referencePage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("docs/cli.md is out of date; run `make golden`:\n%s", diff)
	}
}

func describeCommands(b *strings.Builder, parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		if cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		fmt.Fprintf(b, "\n## %s\n\n%s.\n", cmd.CommandPath(), cmd.Short)
		if cmd.Long != "" {
			fmt.Fprintf(b, "\n```text\n%s\n```\n", strings.TrimSpace(cmd.Long))
		}
		if cmd.Example != "" {
			fmt.Fprintf(b, "\n```sh\n%s\n```\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
		}
		if flags := cmd.LocalFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(b, "\n```text\n%s```\n", flags)
		}
		describeCommands(b, cmd)
	}
}

// TestEveryCommandTeaches looks for commands without examples.
func TestEveryCommandTeaches(t *testing.T) {
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			if c.Example == "" {
				t.Errorf("%s has no example", c.CommandPath())
			}
			visit(c)
		}
	}
	visit(newRoot(&Process{Stdout: io.Discard, Stderr: io.Discard, LookupEnv: os.LookupEnv}))
}
