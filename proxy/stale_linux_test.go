package proxy_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// Partly proves LM-10, as measured on Envoy: the file of a UNIX socket stays
// when the proxy ends, and the next one starts over it. What is no socket is not
// touched (Envoy removes it).
func TestStaleSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in")
	bootstrap := bootstrapOf(listenAt("pipe", "{pipe: {path: '"+path+"'}}", "filter_chains: [{filters: ["+echoFilter+"]}]"), "")
	for range 2 {
		r := start(t, bootstrap)
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		say(t, c, "hello")
		hear(t, c, "hello")
		_ = c.Close()
		r.finish(t)
		if st, err := os.Stat(path); err != nil || st.Mode()&os.ModeSocket == 0 {
			t.Fatalf("after the end: %v, %v", st, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := begin(t, bootstrap)
	if err := <-r.ended; err == nil {
		t.Error("it starts over a file that is no socket")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("%q, %v", b, err)
	}
}
