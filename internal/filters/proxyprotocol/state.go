package proxyprotocol

import (
	"encoding/json"

	"github.com/xebec-proxy/xebec/internal/dataplane/inspect"
)

// TLVs are the extensions that rules store in the filter state. They are
// immutable.
type TLVs []inspect.TLVField

// Field is the value of a key, for %FILTER_STATE(…:FIELD:key)%.
func (t TLVs) Field(key string) (string, bool) {
	for i := range t {
		if t[i].Key == key {
			return t[i].Value, true
		}
	}
	return "", false
}

// String is a JSON object of keys and values, for %FILTER_STATE(…:PLAIN)%.
func (t TLVs) String() string {
	all := make(map[string]string, len(t))
	for i := range t {
		all[t[i].Key] = t[i].Value
	}
	b, err := json.Marshal(all)
	if err != nil {
		return ""
	}
	return string(b)
}
