package sizes

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestSum compares sums with those of big numbers.
func TestSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	least, most := big.NewInt(math.MinInt64), big.NewInt(math.MaxInt64)
	for range 200 {
		var s, other Sum
		want := new(big.Int)
		for range 100 {
			n := int64(random.Uint64()) >> random.IntN(64)
			if random.IntN(4) == 0 {
				n = []int64{math.MaxInt64, math.MinInt64, 0, -1}[random.IntN(4)]
			}
			if want.Add(want, big.NewInt(n)); random.IntN(2) == 0 {
				s.Add(n)
			} else {
				other.Add(n)
			}
			all := s
			all.Join(other)
			near := want
			if want.Cmp(most) > 0 {
				near = most
			} else if want.Cmp(least) < 0 {
				near = least
			}
			if all.Big().Cmp(want) != 0 || all.Int64() != near.Int64() {
				t.Fatalf("got %s and %d, want %s", all.Big(), all.Int64(), want)
			}
		}
	}
}
