package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what the program was made from.
type build struct {
	Version  string `json:"version" yaml:"version"`
	Commit   string `json:"commit,omitempty" yaml:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty" yaml:"modified,omitempty"`
	Go       string `json:"go" yaml:"go"`
	Platform string `json:"platform" yaml:"platform"`
	// EnvoyAPI is the version of the module with Envoy's messages.
	EnvoyAPI string `json:"envoy_api,omitempty" yaml:"envoy_api,omitempty"`
}

func (b build) String() string {
	s := b.Version
	if b.Commit != "" {
		s += " (" + b.Commit[:min(12, len(b.Commit))]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s
}

func thisBuild() build {
	b := build{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, d := range info.Deps {
		if d.Path == "github.com/envoyproxy/go-control-plane/envoy" {
			b.EnvoyAPI = d.Version
		}
	}
	return b
}

func newVersion(p *Process) *cobra.Command {
	var out output
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Say which version this is and what it was built from",
		Example: `  xebec version
  xebec version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return out.print(p, b, func(t *table) {
				t.row("VERSION", "COMMIT", "GO", "PLATFORM", "ENVOY API")
				t.row(b.Version, b.Commit, b.Go, b.Platform, b.EnvoyAPI)
			}, func() []string { return []string{b.Version} })
		},
	}
	out.flag(cmd)
	return cmd
}

// userAgent names this program to the servers it calls.
func userAgent() string { return fmt.Sprintf("xebec/%s", thisBuild().Version) }
