package dist

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Stream gives the random numbers for one purpose: a PCG generator seeded with the first 16 bytes of the
// SHA-256 of (seed, purpose, index...). Every random decision of generate takes its numbers from such a
// stream, with a purpose of its own and the number of the conversation (and of the turn) as its index, so
// that
//
//   - the same seed gives the same dataset, whatever the number of workers or shards;
//   - a new feature draws from a new purpose and reshuffles nothing;
//   - conversation 17 is the same conversation in a dataset of 100 and in one of 10,000.
//
// PCG-DXSM and SHA-256 are fixed algorithms; the floating-point functions behind some distributions
// (exponential, logarithm) may differ between processor families in the last bit, which rounding to
// whole tokens hides.
func Stream(seed uint64, purpose string, index ...uint64) *rand.Rand {
	return rand.New(Source(seed, purpose, index...))
}

// Source is [Stream] for those who want the generator itself.
func Source(seed uint64, purpose string, index ...uint64) *rand.PCG {
	b := make([]byte, 0, 96)
	b = append(b, "parley stream 1\x00"...)
	b = binary.LittleEndian.AppendUint64(b, seed)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(purpose)))
	b = append(b, purpose...)
	for _, i := range index {
		b = binary.LittleEndian.AppendUint64(b, i)
	}
	sum := sha256.Sum256(b)
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[0:]), binary.LittleEndian.Uint64(sum[8:]))
}
