package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// numbered are the entries of histories by number, from 1.
type numbered struct {
	series string
	of     []job.Moved // what the entries are
	all    []byte      // of each entry the index in of; 0: it is missing
	pages  int         // that were read
	fails  error
}

func (n *numbered) add(hour time.Time, kind job.Kind, from, to lifecycle.State, o lifecycle.Outcome, times int) {
	n.of = append(n.of, job.Moved{Kind: kind, From: from, To: to, Outcome: o, Hour: hour})
	n.all = append(n.all, bytes.Repeat([]byte{byte(len(n.of))}, times)...)
}

func (n *numbered) Entries(context.Context) (int64, string, error) {
	return int64(len(n.all)), n.series, n.fails
}

func (n *numbered) Moved(_ context.Context, after, through int64) ([]job.Moved, error) {
	n.pages++
	var some []job.Moved
	for i, m := range n.of {
		if m.Entries = int64(bytes.Count(n.all[after:through], []byte{byte(i + 1)})); m.Entries > 0 {
			some = append(some, m)
		}
	}
	return some, nil
}

// TestThroughputOfEntries: the throughput counts the entries of the last hours that end a job, each once: those before
// the start of the server, those of all servers, and those of several requests. What one request reads is bounded. The
// control is the server without entries, which counts none of them.
func TestThroughputOfEntries(t *testing.T) {
	const letter = job.Kind("test.letter")
	hour := time.Now().UTC().Truncate(time.Hour)
	n := &numbered{series: "a"}
	n.add(hour.Add(-30*time.Hour), letter, "Riding", "Delivered", lifecycle.OK, 20_000) // earlier than what is kept
	n.add(hour.Add(-23*time.Hour), letter, "Riding", "Delivered", lifecycle.OK, 10)
	n.add(hour.Add(-2*time.Hour), letter, "Posted", "Sorting", lifecycle.None, 200_000) // no end
	n.add(hour.Add(-time.Hour), letter, "Sorting", "Lost", lifecycle.Failed, 3)
	n.add(hour.Add(-time.Hour), letter, "Lost", "Burnt", lifecycle.Failed, 3) // they had ended
	n.add(hour.Add(-time.Hour), "test.unknown", "A", "B", lifecycle.TimedOut, 2)
	n.add(hour, letter, "Held", "Burnt", lifecycle.Cancelled, 1)
	counted := func(w *servertest.Harness) (counts map[string]int64, since time.Time) {
		t.Helper()
		all, err := w.Client.Throughput(t.Context())
		if err != nil || len(all.Hours) != 24 {
			t.Fatalf("got %+v, %v", all, err)
		}
		counts = map[string]int64{}
		for _, h := range all.Hours {
			for _, k := range h.Kinds {
				ago := int(hour.Sub(h.Start) / time.Hour)
				counts[fmt.Sprint(ago, " ", k.Kind)] = k.Jobs
				for outcome, jobs := range map[string]int64{"ok": k.OK, "failed": k.Failed, "timed out": k.TimedOut,
					"cancelled": k.Cancelled} {
					if jobs > 0 {
						counts[fmt.Sprint(ago, " ", k.Kind, " ", outcome)] = jobs
					}
				}
			}
		}
		return counts, all.Since
	}
	first := hour.Add(-23 * time.Hour)
	w := servertest.Open(t, func(o *server.Options) { o.Entries = n }, nil)
	want := map[string]int64{"1 test.letter": 3, "1 test.letter failed": 3, "1 test.unknown": 2,
		"1 test.unknown timed out": 2, "0 test.letter": 1, "0 test.letter cancelled": 1}
	got, since := counted(w)
	if diff := cmp.Diff(want, got); diff != "" || n.pages != 20 || !since.After(first) {
		t.Errorf("after one request, which read %d pages, since %s: %s", n.pages, since, diff)
	}
	want["23 test.letter"], want["23 test.letter ok"] = 10, 10
	for range 2 {
		got, since = counted(w)
		if diff := cmp.Diff(want, got); diff != "" || !since.Equal(first) {
			t.Errorf("after another one, since %s: %s", since, diff)
		}
	}
	pages := n.pages
	n.add(hour, letter, "Riding", "Delivered", lifecycle.OK, 4)
	n.all = append(n.all, 0, 0, 0, 0, 0)
	want["0 test.letter"], want["0 test.letter ok"] = 5, 4
	for range 2 {
		if got, _ := counted(w); cmp.Diff(want, got) != "" {
			t.Errorf("after more entries: %s", cmp.Diff(want, got))
		}
	}
	if n.pages != pages+1 {
		t.Errorf("%d pages were read for 9 new entries", n.pages-pages)
	}
	other := servertest.Open(t, func(o *server.Options) { o.Entries = n }, nil)
	counted(other)
	if got, _ := counted(other); cmp.Diff(want, got) != "" {
		t.Errorf("another server: %s", cmp.Diff(want, got))
	}
	n.series, n.all = "b", n.all[:10] // the store was restored
	if got, _ := counted(w); len(got) != 0 {
		t.Errorf("another series: got %v", got)
	}
	n.fails = job.Errorf(job.Unavailable, "history", "", "the store is away")
	if answer, text := w.Ask(w.Request(http.MethodGet, "/api/v1/throughput", "")); answer.StatusCode != 503 {
		t.Errorf("without the store: %s, %s", answer.Status, text)
	}
	control := servertest.Open(t, nil, nil)
	if got, _ := counted(control); len(got) != 0 {
		t.Errorf("without entries: got %v", got)
	}
}
