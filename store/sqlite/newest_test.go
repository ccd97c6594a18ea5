package sqlite

import (
	"bytes"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/newest"
)

var _ interface {
	history.Source
	history.Whole
} = (*Store)(nil)

// TestNewest compares the newest entries of parts of the history with the histories, for pages of several sizes.
func TestNewest(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{})
	workload(t, s, newDisk(t))
	last, series, err := s.Entries(t.Context())
	if err != nil || last == 0 || series == "" {
		t.Fatal(last, series, err)
	}
	for _, part := range []struct{ after, through int64 }{
		{0, last}, {0, last / 2}, {last / 2, last}, {3, 4}, {last, last},
	} {
		want := map[job.ID]job.Hash{}
		err := s.Histories(t.Context(),
			func(j *job.Job, entries []job.Event, numbers []int64, damage error) error {
				for i := range entries {
					if part.after < numbers[i] && numbers[i] <= part.through {
						want[j.ID] = j.Head
					}
				}
				return damage
			})
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int64{1, 2, 7, newest.Page} {
			n := 0
			err := s.newestBy(t.Context(), size, part.after, part.through,
				func(id job.ID, seq int64, hash job.Hash) error {
					if n++; want[id] != hash || seq == 0 {
						t.Errorf("%v, pages of %d: %s %d", part, size, id, seq)
					}
					return nil
				})
			if err != nil || n != len(want) {
				t.Errorf("%v, pages of %d: %d of %d jobs, %v", part, size, n, len(want), err)
			}
		}
	}
}

// TestMoved compares the counts of entries of parts of the history with the histories, also after the store was opened
// again.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	workload(t, s, newDisk(t))
	for range 2 {
		last, _, err := s.Entries(t.Context())
		if err != nil || last == 0 {
			t.Fatal(last, err)
		}
		for _, part := range []struct{ after, through int64 }{{0, last}, {0, last / 2}, {3, 4}, {last, last + 9}} {
			want := map[job.Moved]int64{}
			err := s.Histories(t.Context(),
				func(j *job.Job, entries []job.Event, numbers []int64, damage error) error {
					for i, e := range entries {
						if part.after < numbers[i] && numbers[i] <= part.through {
							want[job.Moved{Kind: j.Kind, From: e.From, To: e.To, Outcome: e.Outcome,
								Hour: e.At.Truncate(time.Hour)}]++
						}
					}
					return damage
				})
			if err != nil {
				t.Fatal(err)
			}
			all, err := s.Moved(t.Context(), part.after, part.through)
			got := map[job.Moved]int64{}
			for _, m := range all {
				n := m.Entries
				m.Entries = 0
				got[m] += n
			}
			if err != nil || !maps.Equal(got, want) || len(got) != len(all) {
				t.Errorf("%v: got %v, %v, the histories have %v", part, all, err, want)
			}
		}
		closeStore(t, s)
		s = openStore(t, dir, Options{})
	}
}

// TestAnchorOfStore: an export of a store is good, and one of a store that was edited after its anchor is not.
func TestAnchorOfStore(t *testing.T) {
	a, err := authority.New("office", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	if err := os.WriteFile(root, a.RootPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	by, err := timestamp.NewAuthority(timestamp.Settings{Name: "office", URL: web.URL, Roots: []string{root}})
	if err != nil {
		t.Fatal(err)
	}
	dir, anchors := t.TempDir(), t.TempDir()
	s := openStore(t, dir, Options{})
	workload(t, s, newDisk(t))
	err = history.New(history.Options{Dir: anchors, Source: s, Installation: s.Installation(),
		Authorities: func() []*timestamp.Authority { return []*timestamp.Authority{by} }}).Round(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "tst_after")
	verify := func() history.Report {
		t.Helper()
		var out bytes.Buffer
		if _, err := history.Export(t.Context(), &out, anchors, s.Installation(), s, time.Now()); err != nil {
			t.Fatal(err)
		}
		r, err := history.Verify(t.Context(), bytes.NewReader(out.Bytes()), int64(out.Len()), a.Verifier(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := verify(); r.Count != 0 || r.Jobs < 12 || r.Audit == 0 || len(r.Stamps) != 1 {
		t.Fatalf("control: %+v", r)
	}
	closeStore(t, s)
	sql(t, dir, "UPDATE event SET note = 'forged' WHERE e = 3")
	s = openStore(t, dir, Options{})
	want := "was replaced: they were recorded before anchor 1"
	if r := verify(); r.Count != 1 || !strings.Contains(r.Faults[0].What, want) {
		t.Errorf("after an edit: %+v", r)
	}
}
