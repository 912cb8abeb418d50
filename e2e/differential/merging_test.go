//go:build interop

package differential

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mergeWindow is long enough for several changes of a file.
const mergeWindow = 3 * time.Second

// merging has a cluster whose endpoints are in a file, and one that merges nothing. The
// runtime says what of changes by EDS, which are batches to Envoy.
func merging(runtime string) map[string]string {
	cluster := func(name, window string) string {
		return `{name: ` + name + `, type: EDS, connect_timeout: 1s, common_lb_config: {update_merge_window: ` + window + `},
			eds_cluster_config: {eds_config: {resource_api_version: V3, path_config_source: {path: "${dir}/` + name + `.yaml"}}}}`
	}
	return map[string]string{
		"bootstrap.json": `{"node": {"id": "id", "cluster": "c"}, "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}},
			"layered_runtime": {"layers": [{"name": "s", "static_layer": {` + runtime + `}}]},
			"dynamic_resources": {"cds_config": {"resource_api_version": "V3", "path_config_source": {"path": "${dir}/cds.yaml"}}}}`,
		"cds.yaml": `resources:
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, ` + cluster("merged", mergeWindow.String())[1:] + `
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, ` + cluster("whole", "0s")[1:] + "\n",
		"merged.yaml": endpointsFile("merged", "", group0("", one, two), group0(", priority: 1", three)),
		"whole.yaml":  endpointsFile("whole", "", group0("", one, two)),
	}
}

const (
	one   = "port_value: 1}}}"
	two   = "port_value: 2}}}"
	three = "port_value: 3}}}"
	four  = "port_value: 4}}}"
)

// group0 is a locality; of an endpoint only the end is given.
func group0(fields string, ends ...string) string {
	var list []string
	for _, end := range ends {
		list = append(list, "{endpoint: {address: {socket_address: {address: 127.0.0.1, "+end+"}")
	}
	return "{lb_endpoints: [" + strings.Join(list, ", ") + "]" + fields + "}"
}

func endpointsFile(name, policy string, groups ...string) string {
	return `{resources: [{"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: ` + name + policy + `, endpoints: [` + strings.Join(groups, ", ") + `]}]}`
}

var updateStat = regexp.MustCompile(`^cluster_manager\.(cluster_updated|cluster_updated_via_merge|update_merge_cancelled|update_out_of_merge_window): |^cluster\.(merged|whole)\.membership_(change|total|healthy): `)

// updates are the statistics that tell what updates of endpoints did.
func updates(s *side) string {
	page, err := s.admin.Page("/stats")
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for line := range strings.Lines(page) {
		if updateStat.MatchString(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Each kind of change of endpoints counts as in Envoy, at once or when the window
// ends. Envoy 1.40 does not merge batches unless its runtime says so.
// Partly proves CM-16: update_merge_window and its counters.
func TestMergedUpdatesAreCounted(t *testing.T) {
	t.Parallel()
	for name, runtime := range map[string]string{"merged": `"envoy.reloadable_features.enable_batch_aware_update": false`, "by default": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			countUpdates(t, startPair(t, merging(runtime)))
		})
	}
}

// countUpdates compares both proxies after each change.
func countUpdates(t *testing.T, p pair) {
	t.Helper()
	written := map[string]int{"merged": 1, "whole": 1}
	seen := func(name string) {
		t.Helper()
		want := fmt.Sprintf("cluster.%s.update_success: %d\n", name, written[name])
		for _, s := range p {
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				page, err := s.admin.Page("/stats")
				if err == nil && strings.Contains(page, want) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%s has not seen %q: %v", s.name, want, err)
				}
			}
		}
	}
	seen("merged")
	seen("whole")
	p.alike(t, "at the start", func(s *side) any { return updates(s) })
	weighted := func(end string, weight int) string { return fmt.Sprintf("%s, load_balancing_weight: %d", end, weight) }
	second := group0(", priority: 1", three)
	const (
		more = ", policy: {overprovisioning_factor: 200}"
		most = ", policy: {overprovisioning_factor: 210}"
	)
	for _, step := range []struct {
		name    string
		cluster string // the window ends if there is none
		policy  string
		groups  []string
	}{
		{"a weight", "merged", "", []string{group0("", weighted(one, 2), two), second}},
		{"another", "merged", "", []string{group0("", weighted(one, 3), two), second}},
		{"metadata", "merged", "", []string{group0("", weighted(one, 3)+", metadata: {filter_metadata: {x: {a: b}}}", two), second}},
		{"health", "merged", "", []string{group0("", one, two+", health_status: UNHEALTHY"), second}},
		{"the other priority", "merged", "", []string{group0("", one, two+", health_status: UNHEALTHY"), group0(", priority: 1", weighted(three, 2))}},
		{"the end of the window", "", "", nil},
		{"once more", "merged", "", []string{group0("", one, two), group0(", priority: 1", weighted(three, 3))}},
		{"a host in one priority", "merged", "", []string{group0("", one, two, four), group0(", priority: 1", weighted(three, 3))}},
		{"the end of that", "", "", nil},
		{"quiet", "", "", nil},
		{"the policy", "merged", more, []string{group0("", one, two, four), group0(", priority: 1", weighted(three, 3))}},
		{"the policy again", "merged", most, []string{group0("", one, two, four), group0(", priority: 1", weighted(three, 3))}},
		{"a locality", "merged", most, []string{group0(", locality: {zone: z}", one, two, four), group0(", priority: 1", weighted(three, 3))}},
		{"a host of another priority", "merged", most, []string{group0(", locality: {zone: z}", one, two), group0(", priority: 1", weighted(three, 3)), group0(", priority: 1, locality: {zone: z}", four)}},
		{"the weight of a locality", "merged", most, []string{group0(", locality: {zone: z}, load_balancing_weight: 5", one, two), group0(", priority: 1", weighted(three, 3)), group0(", priority: 1, locality: {zone: z}", four)}},
		{"all hosts", "merged", "", nil},
		{"a weight without merging", "whole", "", []string{group0("", weighted(one, 2), two)}},
		{"and again", "whole", "", []string{group0("", weighted(one, 3), two)}},
		{"fewer without merging", "whole", "", []string{group0("", two)}},
	} {
		if step.cluster == "" {
			time.Sleep(mergeWindow + 200*time.Millisecond)
		} else {
			text := endpointsFile(step.cluster, step.policy, step.groups...)
			p.both(func(s *side) { s.write(t, step.cluster+".yaml", text) })
			written[step.cluster]++
			seen(step.cluster)
		}
		p.alike(t, step.name, func(s *side) any { return updates(s) })
	}
}
