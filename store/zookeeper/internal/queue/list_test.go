package queue_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
	"github.com/stagepost/stagepost/store/zookeeper/internal/session"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

func TestJobs(t *testing.T) {
	h := newHarness(t)
	first, ids := h.batch(5, 6, 7)
	second, more := h.batch(8)
	space := int64(100)
	j := h.acquire(layout.Pending)
	need[*queue.Job](h)(h.q.SucceedJob(t.Context(), j, queue.Results{Space: &space}))
	h.put("/jobs/jid0000000900", "", "/jobs/jid0000000900/status", "{")
	for _, one := range []struct {
		filter queue.Filter
		want   []layout.JobID
		bad    int
	}{
		{queue.Filter{}, append(ids, more...), 1},
		{queue.Filter{Batch: second.ID}, more, 0},
		{queue.Filter{States: []layout.Status{layout.Estimating}}, ids[:1], 0},
		{queue.Filter{Batch: first.ID, States: []layout.Status{layout.Pending}}, ids[1:], 0},
		{queue.Filter{Profile: "other_content"}, nil, 1},
	} {
		jobs, bad, err := h.q.Jobs(t.Context(), one.filter)
		h.ok(err)
		var got []layout.JobID
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		if diff := cmp.Diff(one.want, got); diff != "" || len(bad) != one.bad {
			t.Errorf("%+v: bad %v\n%s", one.filter, bad, diff)
		}
	}
	jobs, _, err := h.q.Jobs(t.Context(), queue.Filter{})
	h.ok(err)
	const p = "maps_content"
	if diff := cmp.Diff([]queue.Tally{{p, "", "Estimating", 1, 100}, {p, "", "Pending", 3, 0}},
		queue.Tallies(jobs, false)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]queue.Tally{{p, first.ID, "Estimating", 1, 100}, {p, first.ID, "Pending", 2, 0},
		{p, second.ID, "Pending", 1, 0}}, queue.Tallies(jobs, true)); diff != "" {
		t.Error(diff)
	}
	lengths, err := h.q.Lengths(t.Context())
	if err != nil || len(lengths) != 12 || lengths[0] != (queue.Length{State: "Pending", Entries: 3}) {
		t.Errorf("%+v, %v", lengths, err)
	}
}

// BenchmarkQueue measures operations with 10,000 jobs in the queue.
func BenchmarkQueue(b *testing.B) {
	srv := zktest.Shared(b)
	s, err := session.Open(b.Context(), []string{srv.Address}, session.Options{Timeout: 20 * zktest.Tick})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	q, ctx := queue.New(s, queue.Options{}), b.Context()
	if err := q.Init(ctx); err != nil {
		b.Fatal(err)
	}
	const n = 10_000
	jobs := make([]queue.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob("job", i%100)
	}
	if _, err := q.CreateBatch(ctx, submission("bid-1000000")); err != nil {
		b.Fatal(err)
	}
	batch, _, err := q.AcquireBatch(ctx)
	begin := time.Now()
	for left := jobs; len(left) > 0 && err == nil; {
		most := q.MostJobs(left)
		batch, _, err = q.CreateJobs(ctx, batch, n, left[:most]...)
		left = left[most:]
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("created %.0f jobs a second", n/time.Since(begin).Seconds())
	for name, f := range map[string]func() error{
		"AcquireAndSucceed": func() error {
			j, _, err := q.AcquireJob(ctx, layout.Pending)
			if err == nil {
				_, err = q.SucceedJob(ctx, j, queue.Results{})
			}
			return err
		},
		"Jobs":   func() error { _, _, err := q.Jobs(ctx, queue.Filter{}); return err },
		"Report": func() error { _, err := q.Report(ctx); return err },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
