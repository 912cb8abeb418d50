package archtest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// Lines a file may have: beyond 450 it should be split, beyond this it must.
// Generated files are free.
const (
	maxLines     = 600
	maxTestLines = 900
)

// maxFuncLines is where a function has stopped to be one idea.
const maxFuncLines = 80

var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// goFiles calls f for each Go file of the module that people write.
func goFiles(t *testing.T, f func(name string, src []byte)) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != root && (strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "node_modules"}, d.Name())) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if !generated.Match(src) {
			n++
			f(filepath.ToSlash(strings.TrimPrefix(name, root+string(filepath.Separator))), src)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n < 10 {
		t.Fatalf("found %d Go files below %s: wrong folder?", n, root)
	}
}

func TestFileSizes(t *testing.T) {
	goFiles(t, func(name string, src []byte) {
		limit := maxLines
		if strings.HasSuffix(name, "_test.go") {
			limit = maxTestLines
		}
		if n := bytes.Count(src, []byte("\n")); n > limit {
			t.Errorf("%s has %d lines, limit %d: split it by what it is about", name, n, limit)
		}
	})
}

// TestNoInitAndShortFunctions also sees files that the build of this machine leaves out.
func TestNoInitAndShortFunctions(t *testing.T) {
	goFiles(t, func(name string, src []byte) {
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			return
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: func init runs whether it is wanted or not: construct what is needed where it is used", fset.Position(f.Pos()))
			}
			if n := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line; n > maxFuncLines {
				t.Errorf("%s: %s has %d lines, limit %d", fset.Position(f.Pos()), f.Name.Name, n, maxFuncLines)
			}
		}
	})
}
