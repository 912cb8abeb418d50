package file

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/xds"
)

// groupsText is a groups.yaml of groups by cluster, each with its folders.
func groupsText(groups ...string) string {
	var b strings.Builder
	b.WriteString("groups:\n")
	for _, g := range groups {
		name, folders, _ := strings.Cut(g, " ")
		b.WriteString("- {name: " + name + ", match: {cluster: " + name + "}, folders: [" + folders + "]}\n")
	}
	return b.String()
}

// Proves XS-36: two node clusters, two results.
func TestGroupsAreEditedLive(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "common/c.yaml", cluster("shared", 1))
	write(t, dir, "a/a.yaml", cluster("one", 1))
	write(t, dir, "b/b.yaml", cluster("one", 2))
	l := start(t, dir)
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/shared") // and a duplicate
	l.untilFindings("a duplicate", hasCode("duplicate"))

	before := l.count()
	l.write("groups.yaml", groupsText("x common, a", "y common, b"))
	l.untilTimeout("y", "one", 2*time.Second)
	b := l.since(before)
	if len(b) != 1 || b[0].GroupOf == nil || !b[0].Full {
		t.Fatalf("the groups did not change in one batch: %+v", b)
	}
	if got := b[0].GroupOf(&xds.Node{Cluster: "y"}); got != "y" {
		t.Errorf("the node is in %q", got)
	}
	if _, left := l.state()[DefaultGroup]; left {
		t.Error("the old group is still there")
	}
	if l.get("x", xds.ClusterType, "shared") != l.get("y", xds.ClusterType, "shared") {
		t.Error("the groups have different objects of one resource")
	}
	if d := timeoutOf(l.get("x", xds.ClusterType, "one")); d != time.Second {
		t.Errorf("group x has %v", d)
	}
	l.untilFindings("none", noErrors)
	if name, reason := l.src.Explain(&xds.Node{Cluster: "y"}); name != "y" || !strings.Contains(reason, l.path("groups.yaml")+":3:") {
		t.Errorf("explained as %q because %s", name, reason)
	}

	before = l.count()
	l.write("a/a.yaml", cluster("one", 3))
	l.untilTimeout("x", "one", 3*time.Second)
	if b := l.since(before); len(b) != 1 || b[0].Full || len(b[0].Groups) != 1 {
		t.Errorf("a change in one folder went to more than its group: %+v", b)
	}

	l.write("groups.yaml", groupsText("x common, b"))
	l.untilTimeout("x", "one", 2*time.Second)
	must(t, os.Remove(l.path("groups.yaml")))
	l.untilHolds(DefaultGroup, "Cluster/one", "Cluster/shared")
	if n := len(l.state()); n != 1 {
		t.Errorf("%d groups are left", n)
	}
}

func TestBadGroupsKeepLastGood(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/a.yaml", cluster("one", 1))
	write(t, dir, "groups.yaml", groupsText("x a"))
	l := start(t, dir)
	l.write("groups.yaml", "groups:\n- {name: x, match: {id: {regex: '['}}, folders: a}\n")
	l.untilFindings("the bad expression", hasCode("invalid-value"))
	if f := l.src.Findings()[0]; f.Pos != (xds.Position{File: l.path("groups.yaml"), Line: 2, Column: 25}) {
		t.Errorf("the finding is at %v", f.Pos)
	}
	l.write("a/a.yaml", cluster("one", 2)) // files go on with the groups before
	l.untilTimeout("x", "one", 2*time.Second)
	if got := l.groupOf(&xds.Node{Cluster: "x"}); got != "x" {
		t.Errorf("the node is in %q", got)
	}
	l.write("groups.yaml", groupsText("y a"))
	l.untilHolds("y", "Cluster/one")
	l.untilFindings("none", noErrors)
}

// With a groups.yaml that was never readable nobody knows who may get what, so
// nothing is served.
func TestNothingIsServedWithoutGroups(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a/a.yaml", cluster("one", 1))
	write(t, dir, "groups.yaml", "groups: 7\n")
	l := begin(t, dir)
	l.untilFindings("the bad groups", hasCode("wrong-type"))
	if h := l.src.Health(); h.Loaded || h.Err == nil || l.count() > 0 {
		t.Errorf("%d batches came, the health is %+v", l.count(), h)
	}
	if name, reason := l.src.Explain(&xds.Node{}); name != UnmatchedGroup || !strings.Contains(reason, "cannot be read") {
		t.Errorf("explained as %q because %s", name, reason)
	}
	if f := l.src.Files(); len(f) != 2 || f[1].Path != l.path("groups.yaml") || f[1].Err == nil || f[0].Err != nil || f[0].Resources != 1 {
		t.Errorf("the files are %+v", f)
	}
	b, _, err := Load(dir)
	if err != nil || len(b.Groups) > 0 || b.GroupOf(&xds.Node{}) != UnmatchedGroup {
		t.Errorf("loaded %+v, %v", b, err)
	}
	l.write("groups.yaml", groupsText("x a"))
	l.untilHolds("x", "Cluster/one")
}

func TestGroupFindings(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "stray.yaml", cluster("one", 1))
	write(t, dir, "groups.yaml", groupsText("x nowhere"))
	_, findings, err := Load(dir)
	must(t, err)
	var got []string
	for _, f := range findings {
		got = append(got, f.Code+" "+strings.TrimPrefix(f.Pos.String(), dir+"/")+" "+string(f.Severity))
	}
	want := []string{"missing-folder groups.yaml:2:44 warning", "unassigned stray.yaml warning"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the findings are %q, want %q", got, want)
	}
}
