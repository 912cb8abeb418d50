// Package file serves a directory of resource files: it reads every file in
// it, watches it for changes, and delivers each change as one atomic batch.
//
// The layout is free: files of any of the suffixes .yaml, .yml, .json,
// .pb_text and .pb, in folders of any depth, with any number of resources
// each, in any order. Names that start with a dot and the temporary files of
// editors are ignored. A groups.yaml at the top says which nodes form a group
// and which folders a group gets (docs/groups.md); without it every node is in
// DefaultGroup.
//
// A mistake never costs what was served before. A file that cannot be read
// whole keeps all its resources as they were; a resource that breaks a rule
// keeps its last good version while the others in the file change; a root
// directory that disappears keeps everything. Only a resource that is gone
// from a file that can be read, or whose file is gone, is removed.
//
// A change is delivered at once if it comes alone, and changes that follow one
// another closely are merged. Whatever may be the first half of something (a
// missing or empty file, one that is open for writing, one that does not
// parse) waits until the directory has been quiet for the merge window, so
// that neither an editor's save nor a copy in progress is taken for the whole.
package file
