// Package consistent maps hashes to members so that most hashes keep their
// member when members come and go: the ring and the table of Envoy's policies
// RING_HASH and MAGLEV (LB-05, LB-07). Envoy and this package choose the same
// member for the same hash. A table is immutable, is built off the path of
// requests, and is looked up without a lock or an allocation.
package consistent
