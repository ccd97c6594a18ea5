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

// BenchmarkFirstSVG is the first drawing of a table, layout included.
func BenchmarkFirstSVG(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if parcel().SVG(View{}) == "" {
			b.Fatal("nothing drawn")
		}
	}
}

// BenchmarkSVG is every further drawing.
func BenchmarkSVG(b *testing.B) {
	table := parcel()
	b.ReportAllocs()
	for b.Loop() {
		if table.SVG(View{}) == "" {
			b.Fatal("nothing drawn")
		}
	}
}
