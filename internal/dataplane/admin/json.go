package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonType is the media type of JSON.
const jsonType = "application/json"

// Which fields of a message are written.
const (
	whole = true  // those without a value too
	set   = false // those that are set
)

// render writes a message as Envoy does: names as in the proto files, indented
// by one space, a newline at the end.
func render(m proto.Message, all bool) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: all}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("as JSON: %w", err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", " "); err != nil {
		return nil, fmt.Errorf("as JSON: %w", err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

func (s *Server) json(w http.ResponseWriter, r *http.Request, m proto.Message, all bool) {
	b, err := render(m, all)
	if err != nil {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(b)
}
