package cli

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newMan(p *Process) *cobra.Command {
	var dir, format string
	cmd := &cobra.Command{
		Use:   "man",
		Short: "Write the manual: one page a command",
		Long: `Writes a page for each command into a directory, which is made if it does not exist: as man pages, or as
Markdown.`,
		Example: `  xebec man --dir ./man && man -l ./man/xebec-serve.1
  xebec man --dir ./docs/reference --format markdown`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "man" && format != "markdown" {
				return usageErrorf("--format %q is neither man nor markdown", format)
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("the directory for the pages: %w", err)
			}
			if err := writeManual(cmd.Root(), dir, format); err != nil {
				return err
			}
			pages, err := filepath.Glob(filepath.Join(dir, "xebec*"))
			fmt.Fprintf(p.Stdout, "%d pages in %s\n", len(pages), dir)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "man", "`directory` to write to")
	cmd.Flags().StringVar(&format, "format", "man", "man or markdown")
	return cmd
}

func writeManual(root *cobra.Command, dir, format string) error {
	disableDate(root)
	if format == "markdown" {
		return doc.GenMarkdownTree(root, dir)
	}
	return doc.GenManTree(root, &doc.GenManHeader{Title: "XEBEC", Section: "1", Source: "Xebec"}, dir)
}

// disableDate keeps the pages the same from day to day.
func disableDate(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, c := range cmd.Commands() {
		disableDate(c)
	}
}
