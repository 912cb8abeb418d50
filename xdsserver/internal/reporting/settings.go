package reporting

import (
	"fmt"
	"time"
)

// Terms is how a service speaks of itself in errors and logs.
type Terms struct {
	// Server is what it is, such as "load reporting server".
	Server string
	// Stream is what its streams are for, such as "load report".
	Stream string
	// Kept is what it remembers of nodes, such as "loads".
	Kept string
	// Purpose is what nodes do there, such as "report load".
	Purpose string
}

// OrDefault replaces a setting of 0 by its default. It returns an error that
// names the setting if it is negative.
func OrDefault[T int | time.Duration](name string, value *T, def T) error {
	switch {
	case *value < 0:
		return fmt.Errorf("%s %v is negative; use 0 for the default of %v", name, *value, def)
	case *value == 0:
		*value = def
	}
	return nil
}

// Limit is a bound on what a service remembers, and its default.
type Limit struct {
	Name    string
	Value   *int
	Default int
}

// LimitsOrDefaults is [OrDefault] for each limit, up to the first error.
func LimitsOrDefaults(limits ...Limit) error {
	for _, l := range limits {
		if err := OrDefault("limit "+l.Name, l.Value, l.Default); err != nil {
			return err
		}
	}
	return nil
}
