package sandbox

import "testing"

// BenchmarkTrue measures what one command costs in each tier.
func BenchmarkTrue(b *testing.B) {
	for _, tier := range tiers(b) {
		b.Run(tier, func(b *testing.B) {
			s := opened(b)
			dir := b.TempDir()
			for b.Loop() {
				if e, err := s.run(b.Context(), tier, &Command{Argv: []string{"/bin/true"}, Dir: dir}); err != nil ||
					e.Exit != 0 {
					b.Fatalf("got %+v, %v", e, err)
				}
			}
		})
	}
}
