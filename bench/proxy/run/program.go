package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// The proxies that are compared, Xebec last as in the tables.
const (
	nginx   = "nginx"
	haproxy = "haproxy"
	envoy   = "envoy"
	xebec   = "xebec"
	// before is another build of Xebec, which -before names.
	before = "before"
)

// repository is where Xebec's own module is, seen from this one.
const repository = "../.."

// program is a proxy's program on this machine.
type program struct {
	name, path string
	template   string
	// args start it in the foreground with a configuration and so many workers.
	args func(config string, workers int) []string
}

func programs() []program {
	bootstrap := func(before ...string) func(string, int) []string {
		return func(config string, workers int) []string {
			return append(before, "-c", config, "--concurrency", fmt.Sprint(workers), "--disable-hot-restart", "-l", "error")
		}
	}
	return []program{
		{name: nginx, template: "nginx.conf", args: func(c string, _ int) []string {
			return []string{"-c", c, "-e", c + ".err"}
		}},
		{name: haproxy, template: "haproxy.cfg", args: func(c string, _ int) []string { return []string{"-db", "-f", c} }},
		{name: envoy, template: "envoy.yaml", args: bootstrap()},
		{name: xebec, template: "envoy.yaml", args: bootstrap("proxy")},
	}
}

// find looks for the proxies and for wrk. What is missing is said, with where
// it was looked for, and is no error.
func (o *options) find(ctx context.Context) (found []program, wrk string, missing []string, err error) {
	for _, p := range programs() {
		if !wanted(o.proxies, p.name) {
			continue
		}
		var why string
		switch p.name {
		case xebec:
			if p.path, err = o.findXebec(ctx); err != nil {
				return nil, "", nil, err
			}
		case envoy:
			p.path, why = findEnvoy(os.Getenv("ENVOY"))
		default:
			p.path, why = lookPath(p.name, "apt-get install "+p.name)
		}
		if why != "" {
			missing = append(missing, why)
			continue
		}
		found = append(found, p)
	}
	wrk, why := lookPath("wrk", "apt-get install wrk; without it: no "+wrkSuites())
	if why != "" {
		missing = append(missing, why)
	}
	if o.before != "" {
		earlier, err := o.earlier()
		if err != nil {
			return nil, "", nil, err
		}
		found = append(found, earlier)
	}
	if len(found) == 0 {
		return nil, "", missing, errors.New("there is no proxy to measure")
	}
	return found, wrk, missing, nil
}

func lookPath(name, hint string) (path, why string) {
	for _, at := range []string{name, filepath.Join("/usr/sbin", name)} {
		if path, err := exec.LookPath(at); err == nil {
			return path, ""
		}
	}
	return "", fmt.Sprintf("%s is not in PATH (%s)", name, hint)
}

// findEnvoy takes $ENVOY, else what is in PATH, else what the interoperability
// tests fetch.
func findEnvoy(variable string) (path, why string) {
	fetched, err := filepath.Abs(filepath.Join(repository, ".tmp/e2e/python/bin/envoy"))
	if err != nil {
		return "", err.Error()
	}
	candidates := []string{"envoy", fetched}
	if variable != "" {
		candidates = []string{variable}
	}
	for _, c := range candidates {
		if path, err := exec.LookPath(c); err == nil {
			return path, ""
		}
	}
	if variable != "" {
		return "", fmt.Sprintf("envoy is not where $ENVOY says, %s", variable)
	}
	return "", "envoy is not in PATH (bash e2e/setup.sh fetches it, or set $ENVOY)"
}

// earlier is Xebec as another build made it, to be measured as a proxy of its own.
func (o *options) earlier() (program, error) {
	all := programs()
	p := all[slices.IndexFunc(all, func(p program) bool { return p.name == xebec })]
	p.name = before
	path, err := exec.LookPath(o.before)
	if err == nil {
		p.path, err = filepath.Abs(path)
	}
	if err != nil {
		return p, fmt.Errorf("-before: %w", err)
	}
	return p, nil
}

// findXebec takes what -xebec names, else builds it from this repository.
func (o *options) findXebec(ctx context.Context) (string, error) {
	if o.xebec != "" {
		path, err := exec.LookPath(o.xebec)
		if err != nil {
			return "", fmt.Errorf("-xebec: %w", err)
		}
		return filepath.Abs(path)
	}
	return build(ctx, repository, "./cmd/xebec", filepath.Join(o.bin, xebec), "-pgo=cmd/xebec/proxy.pgo")
}

// build builds a program and says where it is.
func build(ctx context.Context, dir, pkg, to string, flags ...string) (string, error) {
	to, err := filepath.Abs(to)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-trimpath", "-o", to}, flags, []string{pkg})...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s (run this in bench/proxy): %w\n%s", pkg, err, out)
	}
	return to, nil
}
