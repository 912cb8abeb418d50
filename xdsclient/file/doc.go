// Package file is the transport of xdsclient that takes resources from a file
// (XF-01 to XF-07; "filesystem subscriptions" of the protocol).
//
// One file holds one DiscoveryResponse, and that is the whole subscription: the
// resources of one type, in the state-of-the-world variant, so a source of it
// needs Config.PerType. The suffix of the file's name says how it is written:
// ".yaml", ".yml", ".json", ".pb_text" or ".pb".
//
// A file is replaced by moving another one onto its path, or by changing a
// symbolic link on the way to it; with a watched directory, by moving anything
// into that. That is noticed at once. A file that is written to in place is read
// when nobody has written to it for a moment, or, where the system tells nothing,
// within some seconds; with Config.MovesOnly it is not.
//
// There is nobody to send an ACK or a NACK to: a file that cannot be read, or
// whose content is rejected, is seen in the log and in Stats, and what was there
// before stays.
//
// Secrets may name files with certificates and keys. They are watched as well,
// and what is in them is given to the watchers of the secret in their place, so
// that a rotated key is a changed secret (XF-06).
package file
