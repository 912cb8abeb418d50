// Package healthcheck asks the hosts of a cluster again and again whether they are
// well, and tells the cluster (HK-01…HK-13).
//
// A [Machine] holds what one check knows of one host: results in, a [Step] out. The
// times between checks are computed by a schedule. Both are pure. A [Checker] runs a
// goroutine for each host and check, which dials, asks, and gives the result to the
// machine; workers have no part in it. What a host answers cannot make the process
// grow: bodies are looked through as they come, and dropped.
//
// What Envoy's API describes and this package does not do is refused by the name of
// the field when the configuration is read.
package healthcheck
