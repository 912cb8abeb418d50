package demo

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/xebec-proxy/xebec/examples/quickstart"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestOnce runs the demo, which fails unless a gRPC client follows two edits.
func TestOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var out strings.Builder
	err := Run(t.Context(), Options{Dir: dir, Once: true, Out: &out, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"SYNCED   Listener greeter", "SYNCED   Listener greeter-port", "demo-client accepted it", "demo-proxy accepted it",
		"100 requests by gRPC's own xDS: greeter-a 100, greeter-b 0", "100 requests through the proxy: greeter-a 100, greeter-b 0",
		"greeter-b got all requests by gRPC's own xDS", "greeter-b got all requests through the proxy",
		"100 requests by gRPC's own xDS: greeter-a 0, greeter-b 100", "100 requests through the proxy: greeter-a 0, greeter-b 100",
		"requests meanwhile none failed", "SYNCED   Secret greeter-cert", "The proxy shows the certificate ", "connections meanwhile none failed",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the story lacks %q:\n%s", want, &out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, routesFile)); err != nil {
		t.Errorf("the named directory is gone: %v", err)
	}
	if i, err := os.Stat(filepath.Join(dir, certificateFile)); err != nil || i.Mode().Perm() != 0o600 {
		t.Errorf("the file with a key: %v, %v", i, err)
	}
	serials := regexp.MustCompile(`(?:shows the certificate|It shows) ([0-9a-f]+), valid until`).FindAllStringSubmatch(out.String(), -1)
	if len(serials) != 2 || serials[0][1] == serials[1][1] {
		t.Errorf("certificates: %v", serials)
	}
	err = Run(t.Context(), Options{Dir: dir, Once: true, Out: &out, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, ErrNotFresh) {
		t.Errorf("over existing files: %v", err)
	}
}

// TestFilesNameThePorts makes sure that the demo can replace them.
func TestFilesNameThePorts(t *testing.T) {
	for port, file := range map[int]string{portA: "endpoints.yaml", portB: "endpoints.yaml", proxyPort: proxyFile, securePort: "secure.yaml"} {
		text, err := quickstart.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), portField(port)); n != 1 {
			t.Errorf("%q occurs %d times, want once", portField(port), n)
		}
	}
}

func TestWeightsAreEdited(t *testing.T) {
	d := directory{path: t.TempDir()}
	if err := d.setWeights(1, 2); err == nil {
		t.Error("no error without a file")
	}
	name := filepath.Join(d.path, routesFile)
	if err := os.WriteFile(name, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.setWeights(1, 2); err == nil || !strings.Contains(err.Error(), "no weight") {
		t.Errorf("error %v", err)
	}
	text, err := quickstart.Files.ReadFile(routesFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := d.setWeights(25, 75); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "greeter-a, weight: 25}") || !strings.Contains(string(got), "greeter-b, weight: 75}") {
		t.Errorf("%s", got)
	}
}
