package file

import (
	"path"
	"slices"
	"strings"
)

// suffixes are the file name endings that are read, in lower case.
func suffixes() []string { return []string{".yaml", ".yml", ".json", ".pb_text", ".pb"} }

// hidden reports whether an entry of a directory is skipped by its name alone:
// everything that starts with a dot, which includes the "..data" link and the
// time-stamped folders of a mounted ConfigMap. What they hold is reached
// through the links beside them.
func hidden(base string) bool { return strings.HasPrefix(base, ".") }

// readable reports whether a file is read, by its name. The copies and lock
// files of editors never are: "x.yaml~", "#x.yaml#", ".x.yaml.swp", "4913".
func readable(base string) bool {
	if hidden(base) || strings.HasPrefix(base, "#") {
		return false
	}
	return slices.Contains(suffixes(), strings.ToLower(path.Ext(base)))
}
