package rules

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// An index finds what a search of the list finds, whatever was added and removed.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var x index[int]
	var list []int
	for step := range 20_000 {
		switch {
		case r.IntN(12) > 0:
			list = append(list, r.IntN(30))
			x.add(list[len(list)-1])
		case r.IntN(20) == 0:
			list = list[:0]
			x.cut(0)
		default:
			list = list[:len(list)-r.IntN(min(len(list), 15)+1)]
			x.cut(len(list))
		}
		key, want := r.IntN(30), -1
		for i, k := range slices.Backward(list) {
			if k == key {
				want = i
				break
			}
		}
		if got := x.find(key); got != want {
			t.Fatalf("step %d: %d is found at %d of %v, want %d", step, key, got, list, want)
		}
	}
}
