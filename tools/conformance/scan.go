package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Scan collects the claims of every test and test script of a tree.
func (r *Requirements) Scan(tree fs.FS) (Proofs, error) {
	proofs := Proofs{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skippedDir(name) {
				return fs.SkipDir
			}
			return nil
		}
		var scan func(string, []byte) ([]Claim, error)
		switch {
		case strings.HasSuffix(name, "_test.go"):
			scan = r.scanGo
		case isScript(name):
			scan = r.scanScript
		default:
			return nil
		}
		src, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		claims, err := scan(name, src)
		proofs.Add(claims...)
		return err
	})
	return proofs, err
}

// skippedDir names what is not part of the project although it lies in it.
func skippedDir(name string) bool {
	base := path.Base(name)
	return name != "." && strings.HasPrefix(base, ".") ||
		slices.Contains([]string{"node_modules", "vendor", "venv", "__pycache__", "dist", "bin"}, base)
}

// isScript reports whether a file drives a test: a script beside Go tests, or
// a part of the end-to-end suite in another language.
func isScript(name string) bool {
	in := func(dir string) bool { return slices.Contains(strings.Split(path.Dir(name), "/"), dir) }
	switch path.Ext(name) {
	case "", ".txt", ".txtar":
		return in("testdata")
	case ".sh", ".py", ".js", ".mjs", ".ts":
		return in("e2e")
	}
	return false
}

// scanScript reads the comment lines of a script. Consecutive ones are one
// comment.
func (r *Requirements) scanScript(name string, src []byte) ([]Claim, error) {
	var out []Claim
	var comment []string
	start := 0
	flush := func() error {
		claims, err := r.Claims(strings.Join(comment, " "))
		if err != nil {
			return fmt.Errorf("%s:%d: %w", name, start, err)
		}
		for _, c := range claims {
			c.File = name
			out = append(out, c)
		}
		comment = nil
		return nil
	}
	for i, line := range strings.Split(string(src), "\n") {
		if m := commentIn.FindStringSubmatch(line); m != nil {
			if comment == nil {
				start = i + 1
			}
			comment = append(comment, m[1])
			continue
		}
		if err := flush(); err != nil {
			return nil, err
		}
	}
	return out, flush()
}

var testFunc = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)([^a-z]|$)`)

// scanGo reads the names of tests and subtests and the comments on and in
// them. A claim anywhere else is an error: nobody could say what proves it.
func (r *Requirements) scanGo(name string, src []byte) ([]Claim, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []Claim
	var tests []*ast.FuncDecl
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !testFunc.MatchString(f.Name.Name) {
			continue
		}
		tests = append(tests, f)
		claims, err := r.namesIn(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fset.Position(f.Pos()), err)
		}
		out = append(out, claims...)
	}
	for _, c := range file.Comments {
		claims, err := r.Claims(c.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", fset.Position(c.Pos()), err)
		}
		i := slices.IndexFunc(tests, func(f *ast.FuncDecl) bool {
			return f.Doc == c || f.Pos() <= c.Pos() && c.End() <= f.End()
		})
		if len(claims) > 0 && i < 0 {
			return nil, fmt.Errorf("%s: the claim about %s stands on no test: move it onto the one that proves it",
				fset.Position(c.Pos()), claims[0].ID)
		}
		for _, cl := range claims {
			cl.Test = tests[i].Name.Name
			out = append(out, cl)
		}
	}
	for i := range out {
		out[i].File = name
	}
	return out, nil
}

// namesIn reads the ids in the name of a test and of its literal subtests.
func (r *Requirements) namesIn(f *ast.FuncDecl) ([]Claim, error) {
	out, err := r.NameClaims(f.Name.Name)
	ast.Inspect(f, func(n ast.Node) bool {
		for _, id := range r.id.FindAllString(subtestName(n), -1) {
			if !r.Known(id) {
				err = fmt.Errorf("a subtest is named %s, which is not in requirements.tsv", id)
			}
			out = append(out, Claim{ID: id})
		}
		return err == nil
	})
	for i := range out {
		out[i].Test = f.Name.Name
	}
	return out, err
}

// subtestName is the name in a call such as t.Run("XS-19 silence", …).
func subtestName(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 2 {
		return ""
	}
	sel, isSel := call.Fun.(*ast.SelectorExpr)
	lit, isLit := call.Args[0].(*ast.BasicLit)
	if !isSel || !isLit || sel.Sel.Name != "Run" || lit.Kind != token.STRING {
		return ""
	}
	s, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return s
}
