package xdsclient

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// Store keeps what a source has received, for a start at a time when no server
// can be reached (GC-77). Its methods are called one at a time.
type Store interface {
	// Load returns what was kept. What is too old is left out.
	Load() ([]Stored, error)
	// Save replaces what is kept.
	Save(list []Stored) error
}

// Stored is a resource in a [Store].
type Stored struct {
	TypeURL, Name, Version, Server string
	// BodyType is the type URL of the encoded message if that is a redirect or a list
	// collection, else empty.
	BodyType string
	// Body is the encoded resource.
	Body []byte
	// Confirmed is when the server was last known to stand by it.
	Confirmed time.Time
}

// FileStore keeps resources in one file, which is replaced as a whole and can be
// read by its owner only. Resources that were confirmed more than maxAge ago are
// not loaded; 0 is no limit.
func FileStore(path string, maxAge time.Duration) Store {
	return &fileStore{path: path, maxAge: maxAge}
}

type fileStore struct {
	path   string
	maxAge time.Duration
}

// The file is a protobuf message: the mark, entries, and at the end a hash of
// what is before.
const (
	storeMark = "xebec resources 1"

	storeFieldMark, storeFieldEntry, storeFieldHash = 1, 2, 3

	storedType, storedName, storedVersion, storedServer, storedBody, storedConfirmed, storedBodyType = 1, 2, 3, 4, 5, 6, 7
	hashSize                                                                                         = 9 // with its tag
)

var errBrokenStore = errors.New("the file is damaged or not of this kind; delete it to start anew")

func (f *fileStore) Load() ([]Stored, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading stored resources: %w", err)
	}
	list, err := decodeStore(data)
	if err != nil {
		return nil, fmt.Errorf("reading stored resources from %s: %w", f.path, err)
	}
	if f.maxAge <= 0 {
		return list, nil
	}
	young := list[:0]
	for _, r := range list {
		if time.Since(r.Confirmed) <= f.maxAge {
			young = append(young, r)
		}
	}
	return young, nil
}

// Save writes beside the file and moves the result over it, so that there is
// never half a file.
func (f *fileStore) Save(list []Stored) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(f.path), "."+filepath.Base(f.path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("storing resources: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
			err = fmt.Errorf("storing resources: %w", err)
		}
	}()
	_, err = tmp.Write(encodeStore(list))
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), f.path)
}

func encodeStore(list []Stored) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, storeFieldMark, protowire.BytesType), storeMark)
	var e []byte
	for _, r := range list {
		e = e[:0]
		for i, s := range []string{r.TypeURL, r.Name, r.Version, r.Server} {
			e = protowire.AppendString(protowire.AppendTag(e, protowire.Number(i+storedType), protowire.BytesType), s)
		}
		e = protowire.AppendBytes(protowire.AppendTag(e, storedBody, protowire.BytesType), r.Body)
		if r.BodyType != "" {
			e = protowire.AppendString(protowire.AppendTag(e, storedBodyType, protowire.BytesType), r.BodyType)
		}
		if !r.Confirmed.IsZero() {
			e = protowire.AppendVarint(protowire.AppendTag(e, storedConfirmed, protowire.VarintType), uint64(max(0, r.Confirmed.UnixMilli())))
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, storeFieldEntry, protowire.BytesType), e)
	}
	return seal(b)
}

// seal appends the hash.
func seal(b []byte) []byte {
	sum := xxhash.Sum64(b)
	return protowire.AppendFixed64(protowire.AppendTag(b, storeFieldHash, protowire.Fixed64Type), sum)
}

func decodeStore(data []byte) ([]Stored, error) {
	end := len(data) - hashSize
	if end < 0 || data[end] != storeFieldHash<<3|byte(protowire.Fixed64Type) || binary.LittleEndian.Uint64(data[end+1:]) != xxhash.Sum64(data[:end]) {
		return nil, errBrokenStore
	}
	var list []Stored
	marked := false
	for data = data[:end]; len(data) > 0; {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 || typ != protowire.BytesType {
			return nil, errBrokenStore
		}
		v, m := protowire.ConsumeBytes(data[n:])
		if m < 0 {
			return nil, errBrokenStore
		}
		data = data[n+m:]
		switch num {
		case storeFieldMark:
			marked = bytes.Equal(v, []byte(storeMark))
		case storeFieldEntry:
			r, ok := decodeStored(v)
			if !ok {
				return nil, errBrokenStore
			}
			list = append(list, r)
		}
	}
	if !marked {
		return nil, errBrokenStore
	}
	return list, nil
}

func decodeStored(e []byte) (r Stored, ok bool) {
	texts := []*string{&r.TypeURL, &r.Name, &r.Version, &r.Server}
	for len(e) > 0 {
		num, typ, n := protowire.ConsumeTag(e)
		if n < 0 {
			return r, false
		}
		e = e[n:]
		switch {
		case typ == protowire.VarintType && num == storedConfirmed:
			ms, n := protowire.ConsumeVarint(e)
			if n < 0 {
				return r, false
			}
			r.Confirmed, e = time.UnixMilli(int64(ms&(1<<62-1))), e[n:] //nolint:gosec // masked
		case typ == protowire.BytesType:
			v, n := protowire.ConsumeBytes(e)
			if n < 0 {
				return r, false
			}
			e = e[n:]
			if num == storedBody {
				r.Body = v
			} else if num == storedBodyType {
				r.BodyType = string(v)
			} else if i := int(num) - storedType; i >= 0 && i < len(texts) {
				*texts[i] = string(v)
			}
		default:
			return r, false
		}
	}
	return r, r.TypeURL != "" && r.Name != ""
}
