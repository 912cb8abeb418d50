// Conformance writes docs/conformance.md: every requirement with the tests
// that claim to prove it. With -check it writes nothing and fails if the file
// is out of date or a test names a requirement that does not exist.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	root := flag.String("root", ".", "the `folder` of the module")
	check := flag.Bool("check", false, "write nothing; fail if the document is out of date")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

const document = "docs/conformance.md"

func run(root string, check bool) error {
	reqs, err := ReadRequirements("requirements.tsv", strings.NewReader(requirementsTSV))
	if err != nil {
		return err
	}
	proofs, err := reqs.Scan(os.DirFS(root))
	if err != nil {
		return err
	}
	text := Render(reqs, proofs, "..")
	name := filepath.Join(root, filepath.FromSlash(document))
	old, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if string(old) == text {
		return nil
	}
	if check {
		return fmt.Errorf("%s is out of date: run make generate", document)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
