package xdsserver

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The sets of streams follow a model, however many there are and whoever leaves,
// and take no more than the seats are worth.
func TestWatchersFollowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table seats
		var seated []*stream
		for range rapid.IntRange(1, 3000).Draw(t, "streams") {
			s := &stream{}
			table.take(s)
			seated = append(seated, s)
		}
		var set watchers
		model := map[*stream]bool{}
		some := rapid.SampledFrom(seated)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			s := some.Draw(t, "stream")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				set.add(s, &table)
				model[s] = true
			case 2:
				from := rapid.IntRange(0, len(seated)-1).Draw(t, "from")
				for _, s := range seated[from:min(from+rapid.IntRange(1, 400).Draw(t, "n"), len(seated))] {
					set.add(s, &table)
					model[s] = true
				}
			case 3:
				set.remove(s)
				delete(model, s)
			case 4:
				for _, s := range seated[:rapid.IntRange(0, len(seated)).Draw(t, "first")] {
					set.remove(s)
					delete(model, s)
				}
			case 5: // its place goes to another
				set.remove(s)
				delete(model, s)
				table.leave(s)
				table.take(s)
			}
			compareWatchers(t, &set, model, &table)
		}
	})
}

func compareWatchers(t *rapid.T, set *watchers, model map[*stream]bool, table *seats) {
	seen := map[*stream]bool{}
	set.each(table, func(s *stream) {
		if seen[s] {
			t.Fatal("a stream is visited twice")
		}
		seen[s] = true
	})
	if !maps.Equal(seen, model) || set.empty() != (len(model) == 0) {
		t.Fatalf("%d streams are visited, want %d; empty is %v", len(seen), len(model), set.empty())
	}
	for s := range table.each {
		if set.has(s) != model[s] {
			t.Fatalf("has(%d) is %v", s.seat, set.has(s))
		}
	}
	if m := set.many; m != nil && 4*len(m.few)+8*len(m.bits) > len(table.streams)/8+8 {
		t.Fatalf("%d numbers and %d words for %d of %d seats", len(m.few), len(m.bits), m.count, len(table.streams))
	}
}

// Seats are used again, and none are kept once all streams have left.
func TestSeats(t *testing.T) {
	var table seats
	list := make([]*stream, 10)
	for i := range list {
		list[i] = &stream{}
		table.take(list[i])
	}
	table.leave(list[3])
	late := &stream{}
	table.take(late)
	if late.seat != 3 || table.taken() != 10 || slices.Collect(table.each)[3] != late {
		t.Errorf("the newcomer has seat %d of %d", late.seat, table.taken())
	}
	for s := range table.each {
		table.leave(s)
	}
	if table.taken() != 0 || table.streams != nil {
		t.Errorf("%d seats are kept for nobody", len(table.streams))
	}
}
