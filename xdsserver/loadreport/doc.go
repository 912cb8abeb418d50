// Package loadreport is a management server for load reports: it implements
// envoy.service.load_stats.v3.LoadReportingService (LRS).
//
// A [Server] tells each client which clusters to report and how often
// ([Config], changeable at any time), and adds up what they report per node,
// cluster, service name, locality and endpoint. [Server.Loads],
// [Server.Services], [Server.Nodes] and their relatives read the sums;
// [Server.Subscribe] delivers every report as it arrives.
//
// A load has two sides. Total counts what happened since an entry was first
// reported; Latest, the rates and the gauges describe the newest report of
// each connected stream, so they fall away when a client leaves.
//
// Memory is bounded by [Limits]. What no one reports for the retention time is
// forgotten, and its part of the totals with it.
package loadreport
