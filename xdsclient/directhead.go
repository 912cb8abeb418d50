package xdsclient

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/xebec-proxy/xebec/filter/header"
)

// userAgent is what requests are from, unless metadata say otherwise.
const userAgent = "xebec-xdsclient"

// requestHead is what the requests of a transport have in common.
type requestHead struct {
	scheme, authority, userAgent string
	fields                       []field
}

type field struct{ name, value string }

func newRequestHead(authority string, secure bool, md metadata.MD) (requestHead, error) {
	h := requestHead{scheme: "http", authority: authority, userAgent: userAgent}
	if secure {
		h.scheme = "https"
	}
	for _, key := range slices.Sorted(maps.Keys(md)) {
		for _, v := range md[key] {
			f, err := newField(key, v)
			if err != nil {
				return h, err
			}
			if f.name == "user-agent" {
				h.userAgent = f.value
				continue
			}
			h.fields = append(h.fields, f)
		}
	}
	return h, nil
}

// newField checks metadata.
func newField(key, value string) (field, error) {
	key = strings.ToLower(key)
	switch {
	case key == "" || strings.ContainsFunc(key, notInKeys):
		return field{}, fmt.Errorf("%q is no key: they have letters, digits, '-', '_' and '.'", key)
	case strings.HasPrefix(key, "grpc-") || slices.Contains([]string{
		"content-type", "te", "host", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "content-length",
	}, key):
		return field{}, fmt.Errorf("%q is set by the protocol itself", key)
	case strings.HasSuffix(key, "-bin"):
		return field{key, base64.RawStdEncoding.EncodeToString([]byte(value))}, nil
	case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return field{}, fmt.Errorf("the value of %q has characters beyond ASCII: use a key that ends in -bin", key)
	}
	return field{key, value}, nil
}

func notInKeys(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", r)
}

// of is the head of a request for a method.
func (h *requestHead) of(ctx context.Context, path string, security credentials.AuthInfo, c credentials.PerRPCCredentials) (*header.Map, error) {
	m := &header.Map{}
	m.AddID(header.Method, "POST")
	m.AddID(header.Scheme, h.scheme)
	m.AddID(header.Path, path)
	m.AddID(header.Authority, h.authority)
	m.AddID(header.ContentType, "application/grpc")
	m.AddID(header.UserAgent, h.userAgent)
	m.AddID(header.TE, "trailers")
	m.AddID(header.GRPCAcceptEncoding, "identity")
	for _, f := range h.fields {
		m.Add(f.name, f.value)
	}
	if c == nil {
		return m, nil
	}
	return m, h.authorise(ctx, m, path, security, c)
}

// authorise adds what credentials say.
func (h *requestHead) authorise(ctx context.Context, m *header.Map, path string, security credentials.AuthInfo, c credentials.PerRPCCredentials) error {
	service := path[:strings.LastIndexByte(path, '/')]
	ctx = credentials.NewContextWithRequestInfo(ctx, credentials.RequestInfo{Method: path, AuthInfo: security})
	md, err := c.GetRequestMetadata(ctx, "https://"+strings.TrimSuffix(h.authority, ":443")+service)
	if err != nil {
		return fmt.Errorf("asking the credentials: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(md)) {
		f, err := newField(key, md[key])
		if err != nil {
			return errors.Join(errors.New("the credentials have metadata that cannot be sent"), err)
		}
		m.Add(f.name, f.value)
	}
	return nil
}
