package testpeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Post sends n zero bytes to a URL, and expects a response of 200 with as many
// bytes, all of which it reads.
func Post(ctx context.Context, client *http.Client, url string, n int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(make([]byte, n)))
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w", err)
	}
	defer resp.Body.Close()
	return Echoed(resp, n)
}

// Echoed reads a response's body to its end, and says what it has other than the
// status 200 and n bytes.
func Echoed(resp *http.Response, n int) error {
	body, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("%w", err)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.200s", resp.StatusCode, body)
	case len(body) != n:
		return errShort
	}
	return nil
}

var errShort = errors.New("not as many bytes as were sent")
