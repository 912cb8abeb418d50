package engine

import "strconv"

// Header blocks are encoded once. Fields that HTTP/2's static table lacks enter
// the dynamic table with the first block of a connection, and every later
// block refers to them: what a good encoder arrives at.
type (
	field struct{ name, value string }

	// blocks are the encodings of one header block.
	blocks struct {
		first []byte // fills the dynamic table
		next  []byte // refers to it
		plain []byte // does without a table
	}
)

// Entries of the static table, as whole indexed fields.
const (
	methodGET  = 0x82
	methodPOST = 0x83
	schemeHTTP = 0x86
	status200  = 0x88

	staticEntries = 61
)

// encode encodes indexed fields of the static table, fields for the dynamic
// table, of which after newer ones are inserted later, and fields whose value
// changes with every message, so that they are never indexed.
func encode(static []byte, table []field, after int, literal []field) blocks {
	build := func(put func(b []byte, i int) []byte) []byte {
		b := append([]byte(nil), static...)
		for i := range table {
			b = put(b, i)
		}
		for _, f := range literal {
			b = appendField(b, 0, f)
		}
		return b
	}
	return blocks{
		first: build(func(b []byte, i int) []byte { return appendField(b, 0x40, table[i]) }),
		next: build(func(b []byte, i int) []byte {
			return append(b, 0x80|byte(staticEntries+len(table)+after-i))
		}),
		plain: build(func(b []byte, i int) []byte { return appendField(b, 0, table[i]) }),
	}
}

// appendField appends a field by name and value, each shorter than 127 bytes.
func appendField(b []byte, kind byte, f field) []byte {
	b = append(append(b, kind, byte(len(f.name))), f.name...)
	return append(append(b, byte(len(f.value))), f.value...)
}

// blockStatus is whether a response's block begins with status 200, behind
// changes of the table's size.
func blockStatus200(b []byte) bool {
	for len(b) > 0 && b[0]&0xe0 == 0x20 {
		if b[0] != 0x3f {
			b = b[1:]
			continue
		}
		i := 1
		for i < len(b) && b[i]&0x80 != 0 {
			i++
		}
		b = b[min(i+1, len(b)):]
	}
	return len(b) > 0 && b[0] == status200
}

func requestBlocks(o *Options) blocks {
	literal := []field{{"x-trace-id", traceID}}
	if o.GRPC {
		return encode([]byte{methodPOST, schemeHTTP}, []field{
			{":path", "/bench.Echo/Unary"},
			{":authority", authority},
			{"content-type", "application/grpc"},
			{"user-agent", "grpc-go/1.60.0"},
			{"te", "trailers"},
			{"grpc-accept-encoding", "gzip"},
		}, 0, literal)
	}
	method := byte(methodGET)
	if o.RequestBody > 0 {
		method = methodPOST
	}
	return encode([]byte{method, schemeHTTP}, []field{
		{":path", path},
		{":authority", authority},
		{"user-agent", userAgent},
		{"accept", accept},
		{"accept-language", "en-US,en;q=0.9"},
		{"cookie", cookie},
	}, 0, literal)
}

func responseBlocks(o *Options) blocks {
	if o.GRPC { // the trailers' two fields enter the table later
		return encode([]byte{status200}, []field{{"content-type", "application/grpc"}}, 2, nil)
	}
	return encode([]byte{status200}, []field{
		{"content-type", "application/json"},
		{"server", "load"},
		{"cache-control", "no-store"},
		{"x-upstream", "bench"},
	}, 0, []field{{"content-length", strconv.Itoa(o.ResponseBody)}})
}

func trailerBlocks() blocks {
	return encode(nil, []field{{"grpc-status", "0"}, {"grpc-message", ""}}, 0, nil)
}
