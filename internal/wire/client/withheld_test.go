package client_test

import (
	"testing"

	"github.com/xebec-proxy/xebec/internal/wire/client"
)

// What is withheld waits, answers too, while other types go ahead; the first
// request of a stream does not wait.
func TestWithheld(t *testing.T) {
	cds, eds := benchType("CDS"), benchType("EDS")
	held := map[string]bool{cds.URL: true}
	ch := client.New(client.Config{Checker: &checker{}, Withheld: func(u string) bool { return held[u] }})
	ch.Subscribe(cds, "*")
	ch.Open(begin)
	if r := ch.Next(begin); r == nil || r.TypeURL != cds.URL || r.Answer {
		t.Fatalf("the first request is %+v", r)
	}
	respond(ch, cds, "1", "a 1")
	ch.Subscribe(eds, "a")
	if r := ch.Next(begin); r == nil || r.TypeURL != eds.URL {
		t.Fatalf("the other type's request is %+v", r)
	}
	respond(ch, eds, "2", "a 1")
	respond(ch, cds, "3", "a 2")
	if r := ch.Next(begin); r == nil || !r.Answer || r.Nonce != "2" {
		t.Fatalf("the other type's answer is %+v", r)
	}
	if r := ch.Next(begin); r != nil || ch.Stats().Pending != 0 {
		t.Fatalf("although it is withheld, there is %+v, %d pending", r, ch.Stats().Pending)
	}
	held[cds.URL] = false
	for _, nonce := range []string{"1", "3"} {
		if r := ch.Next(begin); r == nil || !r.Answer || r.Nonce != nonce || r.Error != "" {
			t.Fatalf("want the answer to %s, not %+v", nonce, r)
		}
	}
	if r := ch.Next(begin); r != nil {
		t.Fatalf("one too many: %+v", r)
	}
}
