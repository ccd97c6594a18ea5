package noid

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// shuffle is a permutation of 0..total-1: a Feistel network over the next even number of bits, repeated until the
// value is in range. It is a bijection for any round function. Its result decides the order of a template's names, so
// it must never change.
type shuffle struct {
	total uint64
	half  int // bits of each half
	key   [sha256.Size]byte
}

const rounds = 6

func newShuffle(seed string, total uint64) shuffle {
	half := max(1, (bits.Len64(total-1)+1)/2)
	return shuffle{total: total, half: half, key: sha256.Sum256([]byte("noid:" + seed))}
}

// at returns the image of n. On average it takes fewer than four repetitions, since the range of the network is less
// than four times total.
func (s shuffle) at(n uint64) uint64 {
	for {
		n = s.network(n)
		if n < s.total {
			return n
		}
	}
}

func (s shuffle) network(n uint64) uint64 {
	mask := uint64(1)<<s.half - 1
	left, right := n>>s.half, n&mask
	for round := range rounds {
		left, right = right, left^(s.round(round, right)&mask)
	}
	return left<<s.half | right
}

func (s shuffle) round(round int, half uint64) uint64 {
	var block [sha256.Size + 9]byte
	copy(block[:], s.key[:])
	block[sha256.Size] = byte(round)
	binary.BigEndian.PutUint64(block[sha256.Size+1:], half)
	sum := sha256.Sum256(block[:])
	return binary.BigEndian.Uint64(sum[:8])
}
