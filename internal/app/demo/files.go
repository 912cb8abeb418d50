package demo

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/xebec-proxy/xebec/examples/quickstart"
	"github.com/xebec-proxy/xebec/internal/localcert"
)

// Names and ports in the files of examples/quickstart.
const (
	nameA, nameB = "greeter-a", "greeter-b"
	portA, portB = 18081, 18082
	routesFile   = "routes.yaml"
	routesName   = "greeter-routes"

	certificateFile = "certificate.yaml"
	secretName      = "greeter-cert"
)

// directory is where the demo's files are.
type directory struct {
	path string
	// fresh says that the demo has written the files, and may choose the ports
	// in them and edit them.
	fresh, temporary bool
}

// openDirectory takes the named directory as it is if there is anything in it.
// Otherwise the files are still to be written: into it, or into a temporary
// one if it has no name.
func openDirectory(path string) (directory, error) {
	if path == "" {
		temp, err := os.MkdirTemp("", "xebec-demo-")
		if err != nil {
			return directory{}, fmt.Errorf("a directory for the demo: %w", err)
		}
		return directory{path: temp, fresh: true, temporary: true}, nil
	}
	entries, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.MkdirAll(path, 0o755)
	case err == nil && len(entries) > 0:
		return directory{path: path}, nil
	}
	if err != nil {
		return directory{}, fmt.Errorf("a directory for the demo: %w", err)
	}
	return directory{path: path, fresh: true}, nil
}

func (d directory) close() error {
	if !d.temporary {
		return nil
	}
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("removing the demo's files: %w", err)
	}
	return nil
}

// ports are what the files name: the sample servers' and the proxy's two.
type ports struct{ a, b, plain, secure net.Addr }

// write writes the files with the ports that the servers really have.
func (d directory) write(p ports) error {
	names, err := fs.Glob(quickstart.Files, "*.yaml")
	if err != nil {
		return fmt.Errorf("the demo's files: %w", err)
	}
	chosen := strings.NewReplacer(portField(portA), portField(portOf(p.a)), portField(portB), portField(portOf(p.b)),
		portField(proxyPort), portField(portOf(p.plain)), portField(securePort), portField(portOf(p.secure)))
	for _, name := range names {
		text, err := quickstart.Files.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(d.path, name), []byte(chosen.Replace(string(text))), 0o644)
		}
		if err != nil {
			return fmt.Errorf("writing the demo's files: %w", err)
		}
	}
	return nil
}

// writeCertificate writes the file with the proxy's certificate. It has a key in
// it, so nobody else may read it.
func (d directory) writeCertificate(a *localcert.Authority, life time.Duration) error {
	text, err := secret(a, life)
	if err != nil {
		return err
	}
	return d.save(certificateFile, text, 0o600)
}

func portField(port int) string { return "port_value: " + strconv.Itoa(port) }

func portOf(a net.Addr) int {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.Port
	}
	return 0
}

// setWeights edits the routes.
func (d directory) setWeights(a, b int) error {
	return d.edit(routesFile, func(text string) (string, error) {
		for server, weight := range map[string]int{nameA: a, nameB: b} {
			line := regexp.MustCompile(`(name: ` + server + `, weight: )\d+`)
			if !line.MatchString(text) {
				return "", fmt.Errorf("it has no weight for %s", server)
			}
			text = line.ReplaceAllString(text, "${1}"+strconv.Itoa(weight))
		}
		return text, nil
	})
}

// replace edits a file: the first occurrence of a text becomes another.
func (d directory) replace(file, old, by string) error {
	return d.edit(file, func(text string) (string, error) {
		if !strings.Contains(text, old) {
			return "", fmt.Errorf("it does not hold %q", old)
		}
		return strings.Replace(text, old, by, 1), nil
	})
}

// edit changes a file, and saves as editors do: a new file in place of the old
// one.
func (d directory) edit(file string, change func(text string) (string, error)) error {
	name := filepath.Join(d.path, file)
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("editing %s: %w", file, err)
	}
	text, err := change(string(data))
	if err != nil {
		return fmt.Errorf("editing %s: %w", name, err)
	}
	return d.save(file, text, 0o644)
}

func (d directory) save(file, text string, mode os.FileMode) error {
	temp := filepath.Join(d.path, "."+file+".new")
	err := os.WriteFile(temp, []byte(text), mode)
	if err == nil {
		err = os.Rename(temp, filepath.Join(d.path, file))
	}
	if err != nil {
		return fmt.Errorf("editing %s: %w", file, err)
	}
	return nil
}
