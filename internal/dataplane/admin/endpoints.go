package admin

import "net/http"

// endpoint is a path and what it does.
type endpoint struct {
	path, help string
	params     []param
	// changes: the state of the proxy changes, so it must be POST (AD-01).
	changes bool
	// serve answers; nil if the endpoint is not built, and then instead says what
	// to do.
	serve   func(s *Server, w http.ResponseWriter, r *http.Request)
	instead string
}

// param is a query parameter.
type param struct {
	name, help string
	choices    []string
}

// endpoints are all endpoints of Envoy, sorted by path.
func endpoints() []endpoint {
	filter := param{name: "filter", help: "regular expression (RE2) that names must contain"}
	used := param{name: "usedonly", help: "only what was touched since the start"}
	invert := param{name: "invert_filter", help: "what does not match the filter"}
	return []endpoint{
		{path: "/", help: "this list as a web page", serve: (*Server).index},
		{path: "/allocprofiler", changes: true, instead: "/heap_dump has what was allocated since the start, too: go tool pprof -sample_index=alloc_space"},
		{path: "/certs", help: "the certificates in use", serve: (*Server).certs},
		{path: "/clusters", help: "clusters, their limits and hosts", serve: (*Server).clusters, params: []param{
			{name: "filter", help: "regular expression (RE2) that names of clusters must contain"}, formats("text", "json"),
		}},
		{path: "/config_dump", help: "the configuration in force, without secrets", serve: (*Server).configDump, params: []param{
			{name: "resource", help: "only the elements of this repeated field, such as static_clusters"},
			{name: "mask", help: "only these fields, a google.protobuf.FieldMask; of each element if resource is given"},
			{name: "name_regex", help: "only resources whose whole name matches"},
			{name: "include_eds", help: "the endpoints too"},
		}},
		{path: "/contention", help: "how long locks were waited for", serve: (*Server).contention},
		{path: "/cpuprofiler", help: "begin or end a CPU profile, into admin.profile_path", changes: true, serve: (*Server).cpuProfiler, params: []param{
			{name: "enable", help: "y begins it, n ends it", choices: []string{"y", "n"}},
		}},
		{path: "/drain_listeners", help: "accept no more connections", changes: true, serve: (*Server).drainListeners, params: []param{
			{name: "graceful", help: "let connections end in order first, in the drain time"},
			{name: "skip_exit", help: "the same, and go on accepting connections"},
			{name: "inboundonly", help: "only listeners of inbound traffic"},
		}},
		{path: "/healthcheck/fail", help: "say that the proxy is draining, and let connections end with their next response", changes: true, serve: (*Server).healthFail},
		{path: "/healthcheck/ok", help: "the end of /healthcheck/fail", changes: true, serve: (*Server).healthOK},
		{path: "/heap_dump", help: "what memory is held and where it was allocated, for go tool pprof", serve: (*Server).heapDump},
		{path: "/heapprofiler", changes: true, instead: "see /heap_dump: the heap is always sampled"},
		{path: "/help", help: "this list", serve: (*Server).help},
		{path: "/hot_restart_version", help: "with which versions this one can hot restart", serve: (*Server).hotRestart},
		{path: "/init_dump", help: "what listeners wait for before they accept connections", serve: (*Server).initDump, params: []param{
			{name: "mask", help: "of what, a google.protobuf.FieldMask: listener is all there is"},
		}},
		{path: "/listeners", help: "listeners and the addresses they are bound to", serve: (*Server).listeners, params: []param{formats("text", "json")}},
		{path: "/logging", help: "show or change log levels", changes: true, serve: (*Server).logging, params: []param{
			{name: "level", help: "the level of everything", choices: levelNames()},
			{name: "paths", help: "levels of several components, such as upstream:debug,http:trace"},
		}},
		{path: "/memory", help: "what memory is held", serve: (*Server).memory},
		{path: "/memory/tcmalloc", instead: "see /memory: the memory is Go's"},
		{path: "/peak_heap_dump", instead: "see /heap_dump for what is held now"},
		{path: "/quitquitquit", help: "end the proxy", changes: true, serve: (*Server).quit},
		{path: "/ready", help: "the state: 200 if LIVE, else 503", serve: (*Server).ready},
		{path: "/reopen_logs", help: "open the logs anew, after they were moved away", changes: true, serve: (*Server).reopen},
		{path: "/reset_counters", help: "set all counters to zero", changes: true, serve: (*Server).reset},
		{path: "/runtime", help: "the runtime keys and what each layer says of them", serve: (*Server).runtime},
		{path: "/runtime_modify", help: "set runtime keys in the admin layer: ?key1=value1&key2=value2; an empty value takes the key out of it", changes: true, serve: (*Server).runtimeModify},
		{path: "/server_info", help: "version, state, flags and node", serve: (*Server).info},
		{path: "/stats", help: "the statistics", serve: (*Server).stats, params: []param{
			used, filter, invert, formats("html", "text", "json", "prometheus"),
			{name: "type", help: "of which kind", choices: []string{"All", "Counters", "Histograms", "Gauges", "TextReadouts"}},
			{name: "histogram_buckets", help: "how histograms are shown", choices: []string{"cumulative", "disjoint", "detailed", "summary"}},
		}},
		{path: "/stats/prometheus", help: "the statistics for Prometheus", serve: (*Server).prometheus, params: []param{
			used,
			{name: "text_readouts", help: "texts too, as gauges of value 0"},
			filter, invert,
			{name: "histogram_buckets", help: "how histograms are shown", choices: []string{"cumulative", "summary"}},
		}},
		{path: "/stats/recentlookups", help: "look-ups of statistics by name: there are none while requests are served", serve: (*Server).lookups},
		{path: "/stats/recentlookups/clear", help: "accepted: see /stats/recentlookups", changes: true, serve: (*Server).ok},
		{path: "/stats/recentlookups/disable", help: "accepted: see /stats/recentlookups", changes: true, serve: (*Server).ok},
		{path: "/stats/recentlookups/enable", help: "accepted: see /stats/recentlookups", changes: true, serve: (*Server).ok},
		{path: "/tap", changes: true, instead: "capture the traffic outside the proxy"},
	}
}

func formats(choices ...string) param {
	return param{name: "format", help: "how it is written", choices: choices}
}
