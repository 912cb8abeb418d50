package xdsclient

// DecodeStore and EncodeStore read and write the contents of a store's file.
func DecodeStore(data []byte) ([]Stored, error) {
	// A fuzzer does not find hashes: what it makes gets a right one.
	if n := len(data) - hashSize; n > 0 {
		if list, err := decodeStore(seal(data[:n:n])); err == nil {
			return list, nil
		}
	}
	return decodeStore(data)
}

func EncodeStore(list []Stored) []byte { return encodeStore(list) }
