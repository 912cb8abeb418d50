//go:build interop

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	_ "google.golang.org/grpc/xds" // the client under test: resolves xds:/// targets

	"github.com/xebec-proxy/xebec/e2e/harness"
)

// targetVariable makes the test binary a gRPC client: it names the target. A
// process of its own is needed because gRPC reads GRPC_XDS_BOOTSTRAP when it
// starts.
const targetVariable = "XEBEC_E2E_TARGET"

// callForever is gRPC for Go as js/client.js is gRPC for Node.js: it calls the
// health service every 10 ms and prints a line for each call, until its
// standard input ends.
func callForever(target string) error {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	client := healthpb.NewHealthClient(conn)
	for {
		select {
		case <-tick.C:
			fmt.Println(call(client))
		case <-ended:
			return nil
		}
	}
}

// call is one call, as the line to print.
func call(client healthpb.HealthClient) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var header metadata.MD
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Header(&header)); err != nil {
		return fmt.Sprintf("error %d %s", status.Code(err), strings.ReplaceAll(status.Convert(err).Message(), "\n", " "))
	}
	return "ok " + strings.Join(header.Get("backend"), " ")
}

// caller is a running gRPC client program that prints one line for each call.
type caller struct {
	*harness.Process
	lines chan string
}

// goCaller is the command of the client in Go.
func goCaller(t *testing.T, target string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), targetVariable+"="+target)
	return cmd
}

// nodeCaller is the command of the client in JavaScript.
func nodeCaller(t *testing.T, target string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("node", filepath.Join("js", "client.js"), target)
	cmd.Env = append(os.Environ(), "NODE_PATH="+nodeModules)
	return cmd
}

// startCaller runs a client program with a bootstrap file until the test ends.
func startCaller(t *testing.T, name string, cmd *exec.Cmd, bootstrap []byte) *caller {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(cmd.Env, "GRPC_XDS_BOOTSTRAP="+file)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer := io.Pipe()
	cmd.Stdout = writer
	c := &caller{lines: make(chan string, 1<<16)}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(reader); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	c.Process = harness.Start(t, name, cmd)
	t.Cleanup(func() {
		_ = stdin.Close()
		err := c.Await()
		_ = writer.Close()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	return c
}

// next waits for a number of calls that end from now on, and counts them by
// their lines.
func (c *caller) next(t *testing.T, calls int) map[string]int {
	t.Helper()
	for len(c.lines) > 0 {
		<-c.lines
	}
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	counts := map[string]int{}
	for range calls {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("%s ended: %v", c.Name, c.Err())
			}
			counts[line]++
		case <-timer.C:
			t.Fatalf("%s made fewer than %d calls in 30 s: %v", c.Name, calls, counts)
		}
	}
	return counts
}
