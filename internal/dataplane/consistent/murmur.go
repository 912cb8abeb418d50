package consistent

import "encoding/binary"

// murmurSeed is that of std::hash in GNU's C++ library, which Envoy takes over.
const murmurSeed = 0xc70f6907

// murmur2 is MurmurHash2 for 64-bit machines (MurmurHash64A, by A. Appleby).
func murmur2(b []byte, seed uint64) uint64 {
	const m, r = 0xc6a4a7935bd1e995, 47
	h := seed ^ uint64(len(b))*m
	for ; len(b) >= 8; b = b[8:] {
		k := binary.LittleEndian.Uint64(b) * m
		h = (h ^ (k^k>>r)*m) * m
	}
	if len(b) > 0 {
		var last [8]byte
		copy(last[:], b)
		h = (h ^ binary.LittleEndian.Uint64(last[:])) * m
	}
	h = (h ^ h>>r) * m
	return h ^ h>>r
}
