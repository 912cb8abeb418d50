package snapshot

import "github.com/xebec-proxy/xebec/xds"

// Batch is one atomic change to the groups a server serves, as a source
// delivers it: all of it becomes visible at once or none of it.
type Batch struct {
	// Full says that the batch is the whole state: groups and resources it does
	// not name are dropped. The first batch of a source is a full one.
	Full bool
	// Groups holds the changes by group name. Resources are shared between
	// groups, not copied.
	Groups map[string]Changes
	// GroupOf maps nodes to group names from now on; nil keeps the present one.
	GroupOf xds.GroupFunc
}
