package zookeeper_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// BenchmarkStore measures operations with 10,000 jobs in the store.
func BenchmarkStore(b *testing.B) {
	srv := zktest.Shared(b)
	s, err := zookeeper.Open(b.Context(), []string{srv.Address}, zookeeper.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	const n = 10_000
	for i := 0; i < n; i += 500 {
		jobs := make([]job.Created, 500)
		for k := range jobs {
			jobs[k] = made(fmt.Sprintf("tst_%08d", i+k), "")
		}
		if _, err := s.Create(b.Context(), jobs...); err != nil {
			b.Fatal(err)
		}
	}
	now := time.Date(2026, 3, 4, 6, 0, 0, 0, time.UTC)
	b.Run("ClaimAndCommit", func(b *testing.B) {
		for b.Loop() {
			jobs, err := s.Claim(b.Context(), job.Claim{Worker: "w", N: 1, Lease: time.Minute, Now: now,
				From: []job.KindState{{Kind: job.Kind(storetest.Step.Name()), State: storetest.Step.Start().State}}})
			if err != nil || len(jobs) != 1 {
				b.Fatal(jobs, err)
			}
			r, err := s.Commit(b.Context(), job.Change{Job: jobs[0].ID, Epoch: jobs[0].Epoch, At: now})
			if err != nil || r[0].Err != nil {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("Open", func(b *testing.B) {
		for b.Loop() {
			s.Close()
			if s, err = zookeeper.Open(b.Context(), []string{srv.Address}, zookeeper.Options{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
