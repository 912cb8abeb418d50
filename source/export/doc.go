// Package export writes what a group is served to files that file subscriptions read
// (path_config_source of Envoy and of Xebec), and that xebec serve and package
// source/file can serve again (XF-08).
//
// Each file is one DiscoveryResponse. Listeners, clusters and scopes are in lds.json,
// cds.json and srds.json, since a client takes the file as all there is; of the other
// types each resource has a file of its own, such as eds/web.json, for a client
// refuses a file with more than it has asked for. In names, characters that a path
// cannot have are written as in a URL. List collections and redirects are in binary
// files of their own, such as cds/….pb. Virtual hosts and the endpoints of LEDS have no
// file subscription and are left out.
//
// Files are replaced by moving others onto their path, and only if their content
// changes. What something else refers to is written first, and what is gone is removed
// last.
package export
