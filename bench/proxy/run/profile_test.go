package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"runtime/pprof"
	"testing"
)

// TestProfilesWithoutPaths takes a profile of this test: what says where files
// are is gone, and the names of functions, which a build needs, are not.
func TestProfilesWithoutPaths(t *testing.T) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 0); err != nil {
		t.Fatal(err)
	}
	text := func(b []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	file := []byte("/profile_test.go")
	if !bytes.Contains(text(profile.Bytes()), file) {
		t.Fatal("the profile names no files: the test is of nothing")
	}
	b, err := withoutPaths(profile.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if got := text(b); bytes.Contains(got, file) || !bytes.Contains(got, file[1:]) || !bytes.Contains(got, []byte("TestProfilesWithoutPaths")) {
		t.Errorf("got %q", got)
	}
	for _, bad := range [][]byte{nil, []byte("no profile"), profile.Bytes()[:profile.Len()/2]} {
		if _, err := withoutPaths(bad); err == nil {
			t.Errorf("%d bytes that are no profile are taken", len(bad))
		}
	}
}
