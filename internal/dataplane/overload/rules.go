package overload

// trigger makes a level of a monitor's pressure (config/overload/v3 Trigger).
type trigger struct {
	monitor string
	// From scaling to saturation the level grows from 0 to 1. A threshold has
	// both at the same place.
	scaling, saturation float64
	level               float64
}

// at is the level at a pressure, 0 to 1.
func (t *trigger) at(pressure float64) float64 {
	switch {
	case pressure >= t.saturation:
		return 1
	case pressure <= t.scaling:
		return 0
	}
	return (pressure - t.scaling) / (t.saturation - t.scaling)
}

// action is an action and how far it is taken: as far as the trigger says that
// says most.
type action struct {
	name     string
	kind     kind
	triggers []trigger
	level    float64 // 0: not at all; 1: saturated
	full     bool    // it is saturated, as of when that was told
	changed  bool
}

// rules are the actions with their triggers: pressures in, levels out. They know
// neither time nor what an action does.
type rules struct{ actions []*action }

// pressure tells the rules of a monitor's pressure. What it changed is marked.
func (r *rules) pressure(monitor string, p float64) {
	for _, a := range r.actions {
		level := 0.0
		for i := range a.triggers {
			t := &a.triggers[i]
			if t.monitor == monitor {
				t.level = t.at(p)
			}
			level = max(level, t.level)
		}
		if level != a.level {
			a.level, a.changed = level, true
		}
	}
}

// lowest is the pressure of a monitor at which the first action begins; 1 if none
// does.
func (r *rules) lowest(monitor string) float64 {
	low := 1.0
	for _, a := range r.actions {
		for i := range a.triggers {
			if t := &a.triggers[i]; t.monitor == monitor {
				low = min(low, t.scaling)
			}
		}
	}
	return low
}
