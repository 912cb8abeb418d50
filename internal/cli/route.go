package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/xebec-proxy/xebec/internal/app/routecheck"
)

const routeHelp = `Asks the proxy's own route matching about a configuration, without running a proxy.

The configuration is a RouteConfiguration, as Envoy's router_check tool takes it, a file of resources, or a bootstrap with
static listeners; --route-config says which one if there are several.`

func newRoute(p *Process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "route",
		Short: "Test and explain route tables",
		Long:  routeHelp,
		Example: `  xebec route check routes.yaml tests.yaml
  xebec route explain envoy.yaml --host www.example.com --path /api`,
		Args: subcommandRequired,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRouteCheck(p), newRouteExplain(p))
	return cmd
}

// routeFlags are the flags of both commands.
type routeFlags struct {
	o        routecheck.Options
	warnings bool
}

func (f *routeFlags) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&f.o.RouteConfig, "route-config", "", "`name` of the route configuration, if the file has several")
	cmd.Flags().BoolVar(&f.warnings, "warnings", false, "tell what is deprecated or without effect")
}

func (f *routeFlags) load(p *Process, file string) (*routecheck.Table, error) {
	f.o.Getenv = p.LookupEnv
	w := io.Discard
	if f.warnings {
		w = p.Stderr
	}
	f.o.Logger = slog.New(slog.NewTextHandler(w, nil))
	return routecheck.Load(file, f.o)
}

const routeCheckHelp = `Runs tests on a route table: a file in the format of Envoy's router_check tool, YAML or JSON. Each test has a request
(input) and what is to become of it (validate):

  tests:
  - test_name: api
    input: {authority: www.example.com, path: /api/v1, method: GET}
    validate: {cluster_name: api, path_rewrite: /v1}

Requests are plain, external and have the random value 0 unless input says otherwise (ssl, internal, random_value,
additional_request_headers, dynamic_metadata, runtime). What can be validated: cluster_name, virtual_cluster_name,
virtual_host_name, host_rewrite, path_rewrite, path_redirect, code_redirect, timeout, route_metadata,
request_header_matches and response_header_matches; "" says that there is none.

The exit code is 3 if a test fails.`

func newRouteCheck(p *Process) *cobra.Command {
	var f routeFlags
	var out output
	cmd := &cobra.Command{
		Use:   "check CONFIG TESTS",
		Short: "Run tests on a route table",
		Long:  routeCheckHelp,
		Example: `  xebec route check routes.yaml tests.yaml
  xebec route check --route-config public envoy.yaml tests.json -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usageErrorf("give two files: the configuration and the tests")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			t, err := f.load(p, args[0])
			if err != nil {
				return err
			}
			r, err := routecheck.Check(t, args[1])
			if err != nil {
				return err
			}
			return reportRoutes(p, &out, &r)
		},
	}
	f.flags(cmd)
	out.flag(cmd)
	return cmd
}

// reportRoutes prints the tests that failed, or all of them with -o wide.
func reportRoutes(p *Process, out *output, r *routecheck.Report) error {
	if out.format == formatTable || out.format == formatWide {
		for _, t := range r.Results {
			if len(t.Failures) == 0 && out.wide() {
				fmt.Fprintf(p.Stdout, "ok    %s\n", t.Test)
			}
			for _, f := range t.Failures {
				fmt.Fprintf(p.Stdout, "FAIL  %s: %s is %q, expected %q\n", t.Test, f.Field, f.Actual, f.Expected)
			}
		}
		fmt.Fprintf(p.Stdout, "%s passed, %d failed\n", plural(r.Passed, "test"), r.Failed)
	} else if err := out.print(p, r, nil, func() []string { return failedTests(r) }); err != nil {
		return err
	}
	if r.Failed > 0 {
		return &silentError{ExitFindings}
	}
	return nil
}

func failedTests(r *routecheck.Report) []string {
	var names []string
	for _, t := range r.Results {
		if len(t.Failures) > 0 {
			names = append(names, t.Test)
		}
	}
	return names
}

const routeExplainHelp = `Tells which route a request takes, why each route before it does not match, and what becomes of the request: the
cluster, its headers as the upstream gets them (>), and those that the route adds to the response (<).

The exit code is 3 if no route matches.`

func newRouteExplain(p *Process) *cobra.Command {
	var f routeFlags
	var r routecheck.Request
	cmd := &cobra.Command{
		Use:   "explain CONFIG --host HOST [--path PATH]",
		Short: "Tell which route a request takes, and why",
		Long:  routeExplainHelp,
		Example: `  xebec route explain routes.yaml --host www.example.com --path '/api/v1?x=1' -H 'x-user: me'
  xebec route explain envoy.yaml --host www.example.com --tls`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageErrorf("give one file: the configuration")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if r.Host == "" {
				return usageErrorf("--host is missing: give the request's host")
			}
			t, err := f.load(p, args[0])
			if err != nil {
				return err
			}
			found, err := routecheck.Explain(p.Stdout, t, r)
			if err == nil && !found {
				return &silentError{ExitFindings}
			}
			return err
		},
	}
	f.flags(cmd)
	fl := cmd.Flags()
	fl.StringVar(&r.Host, "host", "", "the request's `host`, with its port if it is not the default")
	fl.StringVar(&r.Path, "path", "/", "the request's `path`, with its query")
	fl.StringVar(&r.Method, "method", "GET", "the request's `method`")
	fl.StringArrayVarP(&r.Headers, "header", "H", nil, "a `\"name: value\"` of the request; can be given again")
	fl.BoolVar(&r.TLS, "tls", false, "the client speaks TLS")
	fl.BoolVar(&r.Internal, "internal", false, "the request comes from inside")
	fl.Uint64Var(&r.Random, "random", 0, "the `number` that decides on fractions and weights")
	return cmd
}
