package configload

import (
	"path/filepath"
	"strings"
)

// Limits of what is read. Configuration of a large fleet stays far below them;
// they keep a broken or hostile file from taking the process down.
const (
	maxFileSize = 512 << 20
	maxDepth    = 256
	// A file may make the loader walk this many nodes, plus aliasFactor times as
	// many as are written in it, by repeating anchors.
	baseVisits  = 1_000_000
	aliasFactor = 20
)

// Suffixes is the accepted suffixes of file names (BS-01). Their case does not
// matter.
func Suffixes() []string { return []string{".yaml", ".yml", ".json", ".pb_text", ".pb"} }

// parse reads a file's documents. It reports false if the format is binary,
// which has no tree.
func (l *load) parse(data []byte) ([]*node, bool) {
	l.visits = baseVisits
	if len(data) > maxFileSize {
		l.fail(0, 0, "", problem(CodeTooLarge, "the file has %d bytes, at most %d are read", len(data), maxFileSize).
			hint("split it into several files"))
		return nil, true
	}
	switch ext := strings.ToLower(filepath.Ext(l.file)); ext {
	case ".yaml", ".yml":
		return l.parseYAML(data), true
	case ".json":
		return l.parseJSON(data), true
	case ".pb_text":
		return l.parseText(data), true
	case ".pb":
		return nil, false
	default:
		l.fail(0, 0, "", problem(CodeFormat, "unknown suffix %q", ext).
			hint("the accepted suffixes are %s", strings.Join(Suffixes(), " ")))
		return nil, true
	}
}
