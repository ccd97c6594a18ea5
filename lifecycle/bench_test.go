package lifecycle_test

import (
	"testing"

	. "github.com/stagepost/stagepost/lifecycle"
)

// BenchmarkNext is one legal move.
func BenchmarkNext(b *testing.B) {
	table := parcel()
	p := table.Start()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := table.Next(p, "begin", Worker); err != nil {
			b.Fatal(err)
		}
	}
}
