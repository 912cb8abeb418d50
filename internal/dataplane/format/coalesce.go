package format

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// coalesce is COALESCE({"operators": [...]}): the first operator that has a
// value.
func coalesce(t *token, o *Options) (*op, error) {
	entries, err := coalesceEntries(t.param)
	if err != nil {
		return nil, fmt.Errorf("COALESCE: %w", err)
	}
	ops := make([]*op, len(entries))
	for i, e := range entries {
		if ops[i], err = coalesceOp(e, o); err != nil {
			return nil, fmt.Errorf("COALESCE: failed to parse operator at index %d: %w", i, err)
		}
	}
	return &op{value: func(dst []byte, c *Context, asJSON bool) ([]byte, bool) {
		for _, p := range ops {
			var ok bool
			if asJSON {
				dst, ok = p.appendJSON(dst, c)
			} else {
				dst, ok = p.append(dst, c)
			}
			if ok {
				return dst, true
			}
		}
		return dst, false
	}}, nil
}

func coalesceEntries(param string) ([]json.RawMessage, error) {
	var whole json.RawMessage
	if err := json.Unmarshal([]byte(param), &whole); err != nil {
		return nil, fmt.Errorf("failed to parse JSON configuration: %w", err)
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(whole, &all) != nil || all["operators"] == nil {
		return nil, errors.New("JSON configuration must contain 'operators' array")
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(all["operators"], &entries); err != nil {
		return nil, errors.New("'operators' must be an array")
	}
	if len(entries) == 0 {
		return nil, errors.New("'operators' array must not be empty")
	}
	return entries, nil
}

func coalesceOp(entry json.RawMessage, o *Options) (*op, error) {
	var t token
	if json.Unmarshal(entry, &t.name) != nil {
		var all map[string]json.RawMessage
		if json.Unmarshal(entry, &all) != nil {
			return nil, errors.New("operator entry must be either a string (command name) or an object with 'command' field")
		}
		if json.Unmarshal(all["command"], &t.name) != nil {
			return nil, errors.New("operator object must have 'command' field")
		}
		if p, ok := all["param"]; ok && json.Unmarshal(p, &t.param) != nil {
			return nil, errors.New("'param' field must be a string")
		}
		if m, ok := all["max_length"]; ok {
			v, err := strconv.Atoi(string(m))
			if err != nil {
				return nil, errors.New("'max_length' field must be an integer")
			}
			if v <= 0 {
				return nil, errors.New("'max_length' must be a positive integer")
			}
			t.max, t.hasMax = v, true
		}
	}
	if plain(t.name) == nil {
		if _, mk := parametrised(t.name, o); mk == nil {
			return nil, fmt.Errorf("unknown command: '%s'", t.name)
		}
	}
	return build(&t, o)
}
