//go:build interop

package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// clientStatus is a stream, as `xebec status -o json` describes it.
type clientStatus struct {
	Node      string       `json:"node"`
	UserAgent string       `json:"user_agent"`
	Group     string       `json:"group"`
	Variant   string       `json:"variant"`
	ADS       bool         `json:"aggregated"`
	Types     []typeStatus `json:"types"`
}

type typeStatus struct {
	Kind      string           `json:"kind"`
	State     string           `json:"state"`
	Resources []resourceStatus `json:"resources"`
}

type resourceStatus struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Version string `json:"version"`
	Reason  string `json:"reason"`
}

// status asks the server for its clients.
func (s *server) status(t *testing.T) []clientStatus {
	t.Helper()
	var page struct {
		Clients []clientStatus `json:"clients"`
	}
	out := s.ask(t, "status", "-o", "json")
	if err := json.Unmarshal(out, &page); err != nil {
		t.Fatalf("xebec status -o json: %v in %s", err, out)
	}
	return page.Clients
}

// resource finds a resource at the only client that has it.
func (s *server) resource(t *testing.T, kind, name string) (resourceStatus, error) {
	t.Helper()
	var found []resourceStatus
	for _, c := range s.status(t) {
		for _, typ := range c.Types {
			for _, r := range typ.Resources {
				if typ.Kind == kind && r.Name == name {
					found = append(found, r)
				}
			}
		}
	}
	if len(found) != 1 {
		return resourceStatus{}, fmt.Errorf("%d clients have %s %s, want 1", len(found), kind, name)
	}
	return found[0], nil
}

// wait runs `xebec wait` until every client has answered as asked.
func (s *server) wait(t *testing.T, resource, outcome string) {
	t.Helper()
	s.ask(t, "wait", "--resource", resource, "--for", outcome, "--timeout", "10s")
}

// arrived waits until the clients have accepted a resource in another version
// than before. It returns the new one.
func (s *server) arrived(t *testing.T, kind, name, before string) string {
	t.Helper()
	var r resourceStatus
	harness.Eventually(t, 10*time.Second, kind+" "+name+" accepted anew", func() (err error) {
		if r, err = s.resource(t, kind, name); err != nil {
			return err
		}
		if r.State != "SYNCED" || r.Version == before {
			return fmt.Errorf("it is %s at version %s", r.State, r.Version)
		}
		return nil
	})
	return r.Version
}

// allSynced waits until no client lacks anything.
func (s *server) allSynced(t *testing.T) {
	t.Helper()
	harness.Eventually(t, 10*time.Second, "all clients synced", func() error {
		clients := s.status(t)
		for _, c := range clients {
			for _, typ := range c.Types {
				if typ.State != "SYNCED" {
					return fmt.Errorf("%s of %s is %s: %v", typ.Kind, c.Node, typ.State, typ.Resources)
				}
			}
		}
		if len(clients) == 0 {
			return fmt.Errorf("there are no clients")
		}
		return nil
	})
}
