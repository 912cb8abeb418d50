package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/xebec-proxy/xebec"

// pkg is what the go command knows of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// graph is the packages a build needs, by import path.
type graph map[string]pkg

// load asks the go command for every package of the module and all they need.
func load(t *testing.T) graph {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-tags", "interop",
		"-json=ImportPath,Name,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	g := graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("go list: %v", err)
		}
		g[p.ImportPath] = p
	}
	if len(g[module+"/xds"].Imports) == 0 {
		t.Fatalf("go list does not know %s/xds: wrong folder?", module)
	}
	return g
}

func ours(path string) bool { return under(path, module) }

// under reports whether path is root or lies below it.
func under(path, root string) bool {
	return path == root || strings.HasPrefix(path, root+"/")
}

// path is how from comes to import a package that match accepts, shortest
// first; nil if it does not. Only packages that follow accepts are looked into.
func (g graph) path(from string, match, follow func(string) bool) []string {
	seen := map[string]bool{from: true}
	queue := [][]string{{from}}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for _, next := range g[p[len(p)-1]].Imports {
			if match(next) {
				return append(slices.Clone(p), next)
			}
			if !seen[next] && follow(next) {
				seen[next] = true
				queue = append(queue, append(slices.Clone(p), next))
			}
		}
	}
	return nil
}
