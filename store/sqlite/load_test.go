package sqlite

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// connections opens n connections to a store's database.
func connections(t *testing.T, s *Store, n int) (cs []*conn.Conn) {
	t.Helper()
	for range n {
		c, err := s.connect(conn.ReadWrite, "PRAGMA query_only = ON")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		cs = append(cs, c)
	}
	return cs
}

func tallies(l *ledger.Ledger) []job.Tally {
	all := l.Tally()
	slices.SortFunc(all, func(a, b job.Tally) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State), cmp.Compare(a.Group, b.Group))
	})
	return all
}

// A start reads the same by one connection and by several, whatever the size of a part: what the store had in memory
// while it ran.
func TestLoadByParts(t *testing.T) {
	s := openStore(t, t.TempDir(), Options{NoLog: true})
	workload(t, s, newDisk(t))
	odd := make([]job.Created, 2)
	for i := range odd {
		odd[i] = benchJob(int64(i+1), time.Now())
	}
	odd[0].Job.Group, odd[1].Job.Tags = strings.Repeat("long", 30), []string{"one", "two"}
	if _, err := s.Create(t.Context(), odd...); err != nil {
		t.Fatal(err)
	}
	if s.lines.last() < 12 {
		t.Fatalf("only %d rows", s.lines.last())
	}
	for _, size := range []int64{1, 2, 5, 1000} {
		for _, n := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("size=%d,connections=%d", size, n), func(t *testing.T) {
				got := &lines{}
				l, err := loadBy(size, connections(t, s, n), s.names, got, nil, recent{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(tallies(s.ledger), tallies(l)); diff != "" {
					t.Errorf("counts (-running +loaded):\n%s", diff)
				}
				if want := s.lines.page(0, 1000); !slices.Equal(got.page(0, 1000), want) {
					t.Errorf("lines\n%v, want\n%v", got.page(0, 1000), want)
				}
			})
		}
	}
}

// A half record ends a start by several connections with its error.
func TestLoadFails(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{NoLog: true})
	workload(t, s, newDisk(t))
	for _, lost := range []string{"DELETE FROM job_now WHERE n = 3", "DELETE FROM job_made WHERE n = 3",
		"DELETE FROM job_now WHERE n = 1", "DELETE FROM job_now WHERE n = (SELECT max(n) FROM job_now)"} {
		dir := t.TempDir()
		if err := s.Backup(t.Context(), dir+"/"+database); err != nil {
			t.Fatal(err)
		}
		sql(t, dir, lost)
		half := &Store{dir: dir, options: Options{}.withDefaults()}
		for _, n := range []int{1, 3} {
			_, err := loadBy(2, connections(t, half, n), s.names, &lines{}, nil, recent{})
			if err == nil || !strings.Contains(err.Error(), "half") {
				t.Errorf("%s, by %d connections: %v", lost, n, err)
			}
		}
	}
}
