package proxy

import (
	"fmt"
	"testing"
	"time"
)

// Names that there was nothing of are remembered for a time, and only the last.
func TestVainNames(t *testing.T) {
	var v vainNames
	at := time.Unix(1000, 0)
	v.add("a", at)
	if !v.has("a", at.Add(vainFor-1)) || v.has("a", at.Add(vainFor)) || v.has("b", at) {
		t.Error("a name is not remembered for its time")
	}
	v.add("a", at.Add(time.Hour))
	if !v.has("a", at.Add(time.Hour)) {
		t.Error("a name is not remembered again")
	}
	v.forget("a")
	v.forget("none")
	if v.has("a", at) {
		t.Error("a name that came is remembered as one that does not exist")
	}
	for i := range 5 * maxVain {
		v.add(fmt.Sprint(i), at)
	}
	if len(v.until) > maxVain || len(v.order) != maxVain {
		t.Errorf("%d names are remembered", len(v.until))
	}
	if !v.has(fmt.Sprint(4*maxVain), at) || v.has(fmt.Sprint(4*maxVain-1), at) {
		t.Error("not the last ones are remembered")
	}
}
