package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/check"
	"github.com/xebec-proxy/xebec/validate"
)

const validateHelp = `Checks resource files as xebec serve would before it serves them: that they can be read, that every message keeps
its own rules and those that Envoy and gRPC check, nested messages included, and that names which refer to other
resources exist. Each finding has file:line:column, the path of the field and what to do about it.

A directory is read as xebec serve reads it, groups.yaml included. Files that are given together may refer to each other.

The exit code is 3 if any finding is an error; warnings alone leave it 0.`

func newValidate(p *Process) *cobra.Command {
	var o check.Options
	var out output
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check resource files and directories",
		Long:  validateHelp,
		Example: `  xebec validate ./xds
  xebec validate listener.yaml clusters.yaml
  xebec validate ./xds -o json | jq -r '.findings[] | "\(.pos.file):\(.pos.line) \(.message)"'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageErrorf("nothing to check: give files or directories, such as ./xds")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if o.Lenient && o.Strict {
				return usageErrorf("--lenient and --strict exclude one another: choose one")
			}
			r, err := check.Paths(args, o)
			if err != nil {
				return err
			}
			return reportFindings(p, &out, r)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&o.Lenient, "lenient", false, "make broken rules warnings, as xebec serve --lenient does")
	cmd.Flags().BoolVar(&o.Strict, "strict", false, "make references to nothing errors, as xebec serve --strict does")
	out.flag(cmd)
	return cmd
}

// reportFindings prints a report: a line for each finding, as compilers write
// them, and a summary.
func reportFindings(p *Process, out *output, r check.Report) error {
	if out.format == formatTable || out.format == formatWide {
		for _, f := range r.Findings {
			fmt.Fprintln(p.Stdout, findingText(f, out.wide()))
		}
		fmt.Fprintln(p.Stdout, summary(r))
	} else if err := out.print(p, r, nil, func() []string { return findingNames(r) }); err != nil {
		return err
	}
	if r.Errors > 0 {
		return &silentError{ExitFindings}
	}
	return nil
}

// findingText is a finding with its hint on a line of its own.
func findingText(f validate.Finding, wide bool) string {
	hint := f.Hint
	f.Hint = ""
	s := f.String()
	if wide {
		s += " [" + f.Code + "]"
	}
	if hint != "" {
		s += "\n    " + strings.ReplaceAll(hint, "\n", "\n    ")
	}
	return s
}

func findingNames(r check.Report) []string {
	var l []string
	for _, f := range r.Findings {
		l = append(l, f.Code)
	}
	return l
}

func summary(r check.Report) string {
	return fmt.Sprintf("%s can be served; %s, %s", plural(r.Resources, "resource"), plural(r.Errors, "error"), plural(r.Warnings, "warning"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
