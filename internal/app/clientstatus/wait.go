package clientstatus

import (
	"fmt"
	"slices"
	"strings"

	"github.com/xebec-proxy/xebec/xds"
)

// Condition is what clients are waited for.
type Condition struct {
	// TypeURL and Name say which resource; no name means all of the type.
	TypeURL, Name string
	// Version, if set, is the only version that counts.
	Version string
	// Rejected waits for the clients to reject it, otherwise to accept it.
	Rejected bool
	// Clients is how many have to subscribe to it, at least.
	Clients int
}

// ParseResource reads TYPE/NAME or TYPE; TYPE is a kind ("Cluster"), an API
// ("CDS") or a type URL.
func ParseResource(s string) (typeURL, name string, err error) {
	if rest, ok := strings.CutPrefix(s, xds.TypePrefix); ok {
		word, name, _ := strings.Cut(rest, "/")
		return xds.TypePrefix + word, name, nil
	}
	word, name, _ := strings.Cut(s, "/")
	t, ok := xds.LookupType(word)
	if !ok {
		var kinds []string
		for _, t := range xds.Types() {
			kinds = append(kinds, t.Kind+" ("+t.API+")")
		}
		return "", "", fmt.Errorf("%q is no resource type; use a type URL or one of %s", word, strings.Join(kinds, ", "))
	}
	return t.URL, name, nil
}

// Subscribed reports whether any client subscribes to what is waited for.
func (c Condition) Subscribed(clients []Client) bool {
	c.Clients = 1
	return !slices.Contains(c.Missing(clients), c.tooFew(0))
}

// Missing says in words what keeps the condition from being met; nothing means
// that it is met.
func (c Condition) Missing(clients []Client) []string {
	want := Good
	if c.Rejected {
		want = rejected
	}
	var missing []string
	subscribers := 0
	for _, client := range clients {
		concerned := false
		for _, t := range client.Types {
			for _, r := range t.Resources {
				if t.TypeURL != c.TypeURL || c.Name != "" && r.Name != c.Name {
					continue
				}
				concerned = true
				switch {
				case !want(r.State):
					missing = append(missing, describe(&client, t.Kind, &r))
				case c.Version != "" && r.Version != c.Version:
					missing = append(missing, describe(&client, t.Kind, &r)+" in another version")
				}
			}
		}
		if concerned {
			subscribers++
		}
	}
	if subscribers < c.Clients {
		missing = append(missing, c.tooFew(subscribers))
	}
	return missing
}

func (c Condition) tooFew(subscribers int) string {
	return fmt.Sprintf("%d of at least %d clients subscribe to %s", subscribers, c.Clients, c.what())
}

func (c Condition) what() string {
	if c.Name == "" {
		return "any " + xds.Kind(c.TypeURL)
	}
	return xds.Kind(c.TypeURL) + " " + c.Name
}

func describe(c *Client, kind string, r *Resource) string {
	s := fmt.Sprintf("node %s: %s %s is %s", nodeName(c), kind, r.Name, r.State)
	if r.Reason != "" {
		s += ": " + r.Reason
	}
	return s
}

func nodeName(c *Client) string {
	if c.Node == "" {
		return "without an id"
	}
	return c.Node
}
