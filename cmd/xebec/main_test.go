package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/xebec-proxy/xebec/internal/testcert"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"xebec":      main,
		"ads-client": adsClientMain,
		"watcher":    watcherMain,
	})
}

// TestScripts runs the program as its users do. See testdata/script.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"addresses": addresses,
			"certs":     certs,
			"replace":   replace,
			"answers":   answers,
			"written":   written,
			"variable":  variable,
		},
	})
}

// exits CODE PROGRAM [ARG...] runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("running %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// addresses FILE waits for a server's --address-file and sets XDS_ADDRESS and
// ADMIN_ADDRESS from it.
func addresses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: addresses FILE")
	}
	var data []byte
	await(ts, args[0]+" to be written", func() bool {
		var err error
		data, err = os.ReadFile(ts.MkAbs(args[0]))
		return err == nil
	})
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		ts.Setenv(name, value)
	}
}

// variable NAME FILE waits until there is something in a file and sets a
// variable to it.
func variable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: variable NAME FILE")
	}
	await(ts, args[1]+" to be written", func() bool {
		data, err := os.ReadFile(ts.MkAbs(args[1]))
		ts.Setenv(args[0], string(data))
		return err == nil && len(data) > 0
	})
}

// written FILE waits until a file is there.
func written(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: written FILE")
	}
	await(ts, args[0]+" to be written", func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

// answers CODE URL waits until a URL is answered with a status code.
func answers(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: answers CODE URL")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	await(ts, args[1]+" to answer "+args[0], func() bool {
		resp, err := client.Get(args[1])
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		return strconv.Itoa(resp.StatusCode) == args[0]
	})
}

func await(ts *testscript.TestScript, what string, done func() bool) {
	deadline := time.Now().Add(20 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// certs DIR makes an authority with certificates for a server and a client.
func certs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: certs DIR")
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	ts.Check(testcert.WriteSet(ts.MkAbs(args[0]), "server", "client"))
}

// replace FILE OLD NEW edits a file, all at once.
func replace(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: replace FILE OLD NEW")
	}
	name := ts.MkAbs(args[0])
	data, err := os.ReadFile(name)
	ts.Check(err)
	if !strings.Contains(string(data), args[1]) {
		ts.Fatalf("%s does not hold %q", args[0], args[1])
	}
	temp := name + ".new~"
	ts.Check(os.WriteFile(temp, []byte(strings.ReplaceAll(string(data), args[1], args[2])), 0o600))
	ts.Check(os.Rename(temp, name))
}
