package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// knownTypes finds the types of messages in an Any. What was refused may hold one
// that this program does not know, whose bytes were taken out since nobody knows
// what in them is secret: it is shown as bytes, of which there are none.
type knownTypes struct{ *protoregistry.Types }

// FindMessageByURL implements the resolver of protojson.
func (k knownTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	t, err := k.Types.FindMessageByURL(url)
	if errors.Is(err, protoregistry.NotFound) {
		return (&wrapperspb.BytesValue{}).ProtoReflect().Type(), nil
	}
	return t, err //nolint:wrapcheck // protojson says where
}

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
	raw, err := protojson.MarshalOptions{UseProtoNames: true, EmitDefaultValues: all, Resolver: knownTypes{protoregistry.GlobalTypes}}.Marshal(m)
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
