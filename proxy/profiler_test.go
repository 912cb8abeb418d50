package proxy_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// profileOf is what a profile in pprof's format says, and fails the test if that
// is not what it is.
func profileOf(t *testing.T, b []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%d bytes are no profile: %v", len(b), err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Proves AD-17 partly: CPU profiles into profile_path and /heap_dump; profiles
// of what is allocated and pprof's pages are not built.
func TestAdminProfiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "cpu.prof")
	r := start(t, small+adminHere+"  profile_path: "+path+"\n")
	post := func(query string, status int, text string) {
		t.Helper()
		if a := r.ask(t, http.MethodPost, "/cpuprofiler"+query, ""); a.status != status || !strings.Contains(a.body, text) {
			t.Fatalf("POST /cpuprofiler%s: %d %q, want %d %q", query, a.status, a.body, status, text)
		}
	}
	if a := r.ask(t, http.MethodGet, "/cpuprofiler?enable=y", ""); a.status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d %s", a.status, a.body)
	}
	post("", http.StatusBadRequest, "?enable=<y|n>\n")
	post("?enable=n", http.StatusOK, "OK\n") // there is none
	post("?enable=y", http.StatusOK, "OK\n")
	post("?enable=y", http.StatusInternalServerError, "a profile is being taken already")
	if _, err := os.Stat(path); err == nil {
		t.Error("there is a file before the profile has ended")
	}
	post("?enable=n", http.StatusOK, "OK\n")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := profileOf(t, b); !strings.Contains(text, "cpu") || !strings.Contains(text, "nanoseconds") {
		t.Error("the file is no CPU profile")
	}
	if text := profileOf(t, []byte(r.get(t, "/heap_dump"))); !strings.Contains(text, "inuse_space") || !strings.Contains(text, "alloc_space") {
		t.Error("/heap_dump is no profile of the heap")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	post("?enable=y", http.StatusOK, "OK\n")
	r.stop() // ends the profile
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	r.ended <- nil
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 || files[0].Name() != "cpu.prof" {
		t.Errorf("files %v, %v", files, err)
	}
}

// TestAdminProfileNowhere says what to do when no file can be written.
func TestAdminProfileNowhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none", "cpu.prof")
	r := start(t, small+adminHere+"  profile_path: "+path+"\n")
	a := r.ask(t, http.MethodPost, "/cpuprofiler?enable=y", "")
	if a.status != http.StatusInternalServerError || !strings.Contains(a.body, filepath.Dir(path)) || !strings.Contains(a.body, "admin.profile_path") {
		t.Errorf("%d %q", a.status, a.body)
	}
}
