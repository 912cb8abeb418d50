//go:build interop

package proxy

import (
	"context"
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// h2specCases is how many cases h2spec has in strict mode: fewer would mean
// that it left some out.
const h2specCases = 146

// Proves HC-04 as far as h2spec in strict mode judges a server: frames, states,
// flow control and fields, in cleartext and over TLS.
func TestH2spec(t *testing.T) {
	b := (&bootstrap{clusters: []cluster{{name: "good", ports: []int{echo(t, false)}}}}).ports(t)
	s := xebec().start(t, b.yaml())
	for name, args := range map[string][]string{
		"cleartext": {"-p", strconv.Itoa(b.h2)},
		"TLS":       {"-p", strconv.Itoa(b.tls), "-t", "-k"},
	} {
		t.Run(name, func(t *testing.T) {
			report := filepath.Join(t.TempDir(), "report.xml")
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			args := append([]string{"-S", "-h", "127.0.0.1", "-P", "/good", "-o", "2", "-j", report}, args...)
			out, err := exec.CommandContext(ctx, h2specBinary, args...).CombinedOutput()
			tests, failures := readReport(t, report)
			if err != nil || failures != 0 || tests != h2specCases {
				t.Errorf("%d cases, %d failures, %v\n%s", tests, failures, err, out)
			}
		})
	}
	s.idle(t)
}

// readReport counts what a JUnit report of h2spec holds.
func readReport(t *testing.T, file string) (tests, failures int) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Suites []struct {
			Cases []struct {
				Failure *struct{} `xml:"failure"`
				Error   *struct{} `xml:"error"`
				Skipped *struct{} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(data, &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Suites {
		for _, c := range s.Cases {
			tests++
			if c.Failure != nil || c.Error != nil || c.Skipped != nil {
				failures++
			}
		}
	}
	return tests, failures
}
