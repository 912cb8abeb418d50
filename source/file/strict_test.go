package file

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/validate"
	"github.com/xebec-proxy/xebec/xds"
)

// edsCluster is a cluster that needs an assignment, assignment what it needs.
func edsCluster(name string, seconds int) string {
	return strings.Replace(cluster(name, seconds), "STATIC", "EDS", 1) + "eds_cluster_config: {eds_config: {ads: {}}}\n"
}

func assignment(name string) string {
	return "\"@type\": " + xds.EndpointType + "\ncluster_name: " + name + "\n"
}

func TestStrict(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(edsCluster("one", 1), cluster("two", 1)))
	l := start(t, dir, WithStrict(true))
	l.untilHolds(DefaultGroup, "Cluster/two") // withheld until it is complete
	l.untilFindings("the dangling reference", func(f []validate.Finding) bool {
		return hasCode("dangling-reference")(f) && !noErrors(f)
	})
	l.write("b.yaml", assignment("one"))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two", "ClusterLoadAssignment/one")
	l.untilFindings("none", noErrors)

	must(t, os.Remove(l.path("b.yaml"))) // needed, so it stays
	l.untilFindings("the missing assignment", hasCode("dangling-reference"))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two", "ClusterLoadAssignment/one")

	l.write("a.yaml", docs(cluster("one", 2), cluster("two", 1))) // not needed any more
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	l.untilFindings("none", noErrors)

	l.write("a.yaml", docs(edsCluster("one", 3), cluster("two", 2))) // the version before stays
	l.untilTimeout(DefaultGroup, "two", 2*time.Second)
	if d := timeoutOf(l.get(DefaultGroup, xds.ClusterType, "one")); d != 2*time.Second {
		t.Errorf("cluster one has %v", d)
	}
	l.write("b.yaml", assignment("one"))
	l.untilTimeout(DefaultGroup, "one", 3*time.Second)
}

// By default a dangling reference is a warning and nothing is held back.
func TestDanglingReferenceIsAWarning(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", edsCluster("one", 1))
	b, findings, err := Load(dir)
	must(t, err)
	if len(b.Groups[DefaultGroup].Set) != 1 || len(findings) != 1 || !noErrors(findings) {
		t.Errorf("loaded %v with %v", b.Groups, findings)
	}
	if f := findings[0]; f.Tier != validate.Reference || f.Name != "one" || !strings.HasPrefix(f.Pos.File, dir) {
		t.Errorf("the finding is %v", f)
	}
}

// broken is a cluster that breaks a rule of its message.
func brokenCluster(name string) string {
	return strings.Replace(cluster(name, 1), "1s", "-1s", 1)
}

// Proves XS-83: a resource that breaks a rule keeps its last good version while
// its neighbours change; lenient delivers it.
func TestRuleViolation(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(cluster("one", 5), cluster("two", 1)))
	l := start(t, dir)
	l.write("a.yaml", docs(brokenCluster("one"), cluster("two", 2), brokenCluster("never")))
	l.untilTimeout(DefaultGroup, "two", 2*time.Second)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	if d := timeoutOf(l.get(DefaultGroup, xds.ClusterType, "one")); d != 5*time.Second {
		t.Errorf("cluster one has %v", d)
	}
	l.untilFindings("the broken rule", func(f []validate.Finding) bool { return !noErrors(f) })
	f := l.src.Findings()[0]
	if want := (xds.Position{File: l.path("a.yaml"), Line: 4, Column: 1}); f.Pos != want || f.Path != "connect_timeout" {
		t.Errorf("the finding is %v, want it at %v", f, want)
	}
	// Moved into another file, still broken: it stays as well.
	must(t, os.Rename(l.path("a.yaml"), l.path("b.yaml")))
	l.write("b.yaml", docs(brokenCluster("one"), cluster("two", 3)))
	l.untilTimeout(DefaultGroup, "two", 3*time.Second)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/two")
	l.write("b.yaml", cluster("two", 4)) // gone for good
	l.untilHolds(DefaultGroup, "Cluster/two")
}

func TestLenient(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.yaml", docs(brokenCluster("one")))
	b, findings, err := Load(dir, WithLenient(true))
	must(t, err)
	if len(b.Groups[DefaultGroup].Set) != 1 || len(findings) == 0 || !noErrors(findings) {
		t.Errorf("loaded %v with %v", b.Groups, findings)
	}
	b, findings, err = Load(dir)
	must(t, err)
	if len(b.Groups[DefaultGroup].Set) != 0 || noErrors(findings) {
		t.Errorf("without lenient, loaded %v with %v", b.Groups, findings)
	}
}
