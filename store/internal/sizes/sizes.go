// Package sizes adds the sizes of jobs.
package sizes

import (
	"math"
	"math/big"
	"math/bits"
)

// Sum is a sum of sizes, which is exact beyond 64 bits. The zero Sum is 0.
type Sum struct {
	high int64
	low  uint64
}

// Add adds a size, which may be negative.
func (s *Sum) Add(n int64) { s.Join(Sum{high: n >> 63, low: uint64(n)}) }

// Join adds another sum.
func (s *Sum) Join(o Sum) {
	low, carry := bits.Add64(s.low, o.low, 0)
	s.high, s.low = s.high+o.high+int64(carry), low
}

// Int64 returns the sum, or the nearest number of 64 bits.
func (s Sum) Int64() int64 {
	switch {
	case s.high == 0 && s.low <= math.MaxInt64, s.high == -1 && s.low > math.MaxInt64:
		return int64(s.low)
	case s.high < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// Big returns the sum.
func (s Sum) Big() *big.Int {
	n := new(big.Int).Lsh(big.NewInt(s.high), 64)
	return n.Add(n, new(big.Int).SetUint64(s.low))
}
