package client

import (
	"fmt"

	"github.com/xebec-proxy/xebec/bench/controlplane/resources"
)

// versionTable is the version of every resource, shared by all streams: they
// all hold the same. It belongs to the loop. The nil table notes nothing.
type versionTable struct {
	byIndex [resources.Kinds][]string
	cached  [resources.Kinds][]byte
	frozen  bool
}

func newVersionTable(clusters int) *versionTable {
	t := &versionTable{}
	for k := range t.byIndex {
		t.byIndex[k] = make([]string, clusters)
	}
	return t
}

// note records a resource's version, and fails if another stream was told
// another one.
func (t *versionTable) note(it item, i int) error {
	if t == nil || t.frozen {
		return nil
	}
	have := &t.byIndex[it.kind][i]
	if *have == "" {
		*have = string(it.version)
	}
	if *have != string(it.version) {
		return fmt.Errorf("%w: %q has version %q on one stream and %q on another", ErrContent, it.name, *have, it.version)
	}
	return nil
}

// freeze keeps the table as it is.
func (t *versionTable) freeze() {
	if t != nil {
		t.frozen = true
	}
}

// encoded is the table as initial_resource_versions.
func (t *versionTable) encoded(k resources.Kind) []byte {
	if t.cached[k] == nil {
		t.cached[k] = heldVersions(t.byIndex[k])
	}
	return t.cached[k]
}
