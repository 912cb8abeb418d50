package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path"
)

// beginProfile makes Xebec take a CPU profile, which it ends when it ends.
func beginProfile(ctx context.Context, admin netip.AddrPort) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+admin.String()+"/cpuprofiler?enable=y", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer resp.Body.Close()
	if why, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("profile: %s: %s", resp.Status, bytes.TrimSpace(why)), err)
	}
	return nil
}

// finishProfile makes a profile that was written one to be kept: it says nothing
// of where on this machine things are.
func finishProfile(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if b, err = withoutPaths(b); err != nil {
		return fmt.Errorf("profile %s: %w", file, err)
	}
	return os.WriteFile(file, b, 0o644) //nolint:gosec // others read it
}

var errProfile = errors.New("this is no profile of pprof")

// withoutPaths leaves the last element of each absolute path in the table of
// strings (field 6 of perftools.profiles.Profile).
func withoutPaths(profile []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(profile))
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	const varint, bytesType, stringTable = 0, 2, 6
	var out []byte
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errProfile
		}
		value, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return nil, errProfile
		}
		out = binary.AppendUvarint(out, tag)
		b = b[n+m:]
		switch {
		case tag&7 == varint:
			out = binary.AppendUvarint(out, value)
		case tag&7 == bytesType && value <= uint64(len(b)):
			data := b[:value]
			if tag>>3 == stringTable && bytes.HasPrefix(data, []byte("/")) {
				data = []byte(path.Base(string(data)))
			}
			out = append(binary.AppendUvarint(out, uint64(len(data))), data...)
			b = b[value:]
		default:
			return nil, errProfile
		}
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err = w.Write(out)
	err = errors.Join(err, w.Close())
	return zipped.Bytes(), err
}
