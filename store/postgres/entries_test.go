package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/history"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/newest"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/storetest"
)

// histories are what anchors and exports read.
type histories interface {
	history.Source
	history.Whole
}

var _ histories = (*Store)(nil)

// TestNewest compares the newest entries of parts of the numbers with the histories, for pages of several sizes.
// Numbers are missing, as after a transaction that was rolled back.
func TestNewest(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{CallerTime: true})
	_, err := script(t.Context(), s)
	check(t, err)
	_, err = s.pool.Exec(t.Context(), "SELECT nextval('entry') FROM generate_series(1, 10)")
	check(t, err)
	for i := range 5 {
		check(t, oneJob(t.Context(), s, job.ID(fmt.Sprint("tst_more", i))))
	}
	last, series, err := s.Entries(t.Context())
	if err != nil || last < 20 || series == "" {
		t.Fatal(last, series, err)
	}
	for _, part := range []struct{ after, through int64 }{
		{0, last}, {0, last / 2}, {last / 2, last}, {3, 4}, {last, last},
	} {
		want := map[job.ID]job.Hash{}
		check(t, s.Histories(t.Context(), func(j *job.Job, _ []job.Event, numbers []int64, damage error) error {
			if slices.ContainsFunc(numbers, func(n int64) bool { return part.after < n && n <= part.through }) {
				want[j.ID] = j.Head
			}
			return damage
		}))
		for _, size := range []int64{1, 2, 7, newest.Page} {
			got := map[job.ID]job.Hash{}
			check(t, newest.Each(t.Context(), size, part.after, part.through, s.newest(t.Context()),
				func(id job.ID, seq int64, hash job.Hash) error {
					if _, twice := got[id]; twice || seq == 0 {
						t.Errorf("%v, pages of %d: %s %d", part, size, id, seq)
					}
					got[id] = hash
					return nil
				}))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v, pages of %d: %s", part, size, diff)
			}
		}
	}
}

// TestMoved compares the counts of entries of parts of the numbers with the histories. Two servers made them.
func TestMoved(t *testing.T) {
	database := newDatabase(t)
	s, other := openStore(t, database, Options{CallerTime: true}), openStore(t, database, Options{CallerTime: true})
	_, err := script(t.Context(), s)
	check(t, err)
	for i := range 5 {
		check(t, oneJob(t.Context(), other, job.ID(fmt.Sprint("tst_more", i))))
	}
	last, _, err := s.Entries(t.Context())
	check(t, err)
	for _, part := range []struct{ after, through int64 }{{0, last}, {0, last / 2}, {3, 4}, {last, last + 9}} {
		want := map[job.Moved]int64{}
		check(t, s.Histories(t.Context(), func(j *job.Job, list []job.Event, numbers []int64, damage error) error {
			for i, e := range list {
				if part.after < numbers[i] && numbers[i] <= part.through {
					want[job.Moved{Kind: j.Kind, From: e.From, To: e.To, Outcome: e.Outcome,
						Hour: e.At.Truncate(time.Hour)}]++
				}
			}
			return damage
		}))
		all, err := s.Moved(t.Context(), part.after, part.through)
		check(t, err)
		got := map[job.Moved]int64{}
		for _, m := range all {
			n := m.Entries
			m.Entries = 0
			got[m] += n
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != len(all) {
			t.Errorf("%v: %s", part, diff)
		}
	}
}

// anchored makes anchors of a store, and verifies exports of it.
type anchored struct {
	t   *testing.T
	dir string
	by  *timestamp.Authority
	ca  *rfc3161.Verifier
	now time.Time
}

func newAnchored(t *testing.T) *anchored {
	t.Helper()
	a, err := authority.New("office", time.Now())
	check(t, err)
	web := httptest.NewServer(a)
	t.Cleanup(web.Close)
	root := filepath.Join(t.TempDir(), "root.pem")
	check(t, os.WriteFile(root, a.RootPEM(), 0o600))
	by, err := timestamp.NewAuthority(timestamp.Settings{Name: "office", URL: web.URL, Roots: []string{root}})
	check(t, err)
	return &anchored{t: t, dir: filepath.Join(t.TempDir(), "anchors"), by: by, ca: a.Verifier(), now: time.Now()}
}

// anchor makes the anchor of a day, and begins the next day.
func (a *anchored) anchor(from history.Source, installation string) {
	a.t.Helper()
	check(a.t, history.New(history.Options{Dir: a.dir, Source: from, Installation: installation,
		Authorities: func() []*timestamp.Authority { return []*timestamp.Authority{a.by} },
		Now:         func() time.Time { return a.now }}).Round(a.t.Context()))
	a.now = a.now.Add(24 * time.Hour)
}

// export exports a store with the anchors of a directory.
func (a *anchored) export(from history.Whole, dir, installation string) []byte {
	a.t.Helper()
	var out bytes.Buffer
	_, err := history.Export(a.t.Context(), &out, dir, installation, from, a.now)
	check(a.t, err)
	return out.Bytes()
}

// faults verifies an export. The time stamps are of the present, whatever the time of their anchors is.
func (a *anchored) faults(export []byte) (all []string) {
	a.t.Helper()
	r, err := history.Verify(a.t.Context(), bytes.NewReader(export), int64(len(export)), a.ca, time.Now())
	check(a.t, err)
	for _, f := range r.Faults {
		all = append(all, fmt.Sprintf("%s %d: %s", f.Object, f.Entry, f.What))
	}
	return all
}

// forge replaces the history of a job by a changed one, with hashes, numbers and a record that fit.
func forge(t *testing.T, s *Store, id job.ID, change func([]job.Event) []job.Event) {
	t.Helper()
	ctx := t.Context()
	past, err := s.History(ctx, id, 0, 0)
	check(t, err)
	past = change(past)
	check(t, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		var n int64
		if err := tx.QueryRow(ctx, "SELECT n FROM job_made WHERE id = $1", id).Scan(&n); err != nil {
			return err
		}
		var numbers []int64
		if err := tx.QueryRow(ctx, "SELECT array_agg(e ORDER BY e) FROM event WHERE job = $1", n).
			Scan(&numbers); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM event WHERE job = $1", n); err != nil {
			return err
		}
		var prev job.Hash
		for i := range past {
			e := &past[i]
			e.Seq = int64(i + 1)
			e.Seal(prev)
			prev = e.Hash
			if _, err := tx.Exec(ctx, events.insert(), events.args([]*entry{{n: n, event: e}})...); err != nil {
				return err
			}
			number := numbers[min(i, len(numbers)-1)] + int64(max(0, i-len(numbers)+1)) // inserted ones follow
			if _, err := tx.Exec(ctx, "UPDATE event SET e = $1 WHERE job = $2 AND seq = $3", number, n,
				e.Seq); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE job_now SET seq = $1, head = $2 WHERE n = $3", len(past), prev[:], n)
		return err
	}))
}

// TestAnchors: histories that were changed together with their hashes are found by their anchors. The controls are the
// store as it was, and an export of the changed one without anchors, in which no history has a fault.
func TestAnchors(t *testing.T) {
	s, a := openStore(t, newDatabase(t), Options{CallerTime: true}), newAnchored(t)
	ctx := t.Context()
	for _, id := range []job.ID{"tst_edited", "tst_cut", "tst_short", "tst_gone", "tst_longer", "tst_kept"} {
		_, err := s.Create(ctx, newJob(storetest.Step, id))
		check(t, err)
		_, err = storetest.Drive(ctx, s, storetest.Step, start, map[job.ID][]lifecycle.Taken{id: {
			{Event: "begin", By: lifecycle.Worker}, {Event: "next", By: lifecycle.Worker},
			{Event: "finish", By: lifecycle.Worker}}})
		check(t, err)
	}
	check(t, s.Note(ctx, job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "test", At: start}))
	a.anchor(s, s.Installation())
	check(t, oneJob(ctx, s, "tst_later"))
	a.anchor(s, s.Installation())
	check(t, oneJob(ctx, s, "tst_new")) // after the newest anchor
	export := func() []byte { return a.export(s, a.dir, s.Installation()) }
	if got := a.faults(export()); len(got) > 0 {
		t.Fatalf("control: %q", got)
	}
	var want []string
	for _, c := range []struct {
		what   string
		change func()
		want   string
	}{
		{"an edited entry", func() {
			forge(t, s, "tst_edited", func(all []job.Event) []job.Event { all[1].Note = "forged"; return all })
		}, "tst_edited 4: an entry up to 4 was replaced: they were recorded before anchor 1"},
		{"a removed entry", func() {
			forge(t, s, "tst_cut", func(all []job.Event) []job.Event { return slices.Delete(all, 1, 2) })
		}, "tst_cut 4: 1 entry was removed at the end: anchor 1"},
		{"a truncated history", func() {
			forge(t, s, "tst_short", func(all []job.Event) []job.Event { return all[:2] })
		}, "tst_short 3: 2 entries were removed at the end: anchor 1"},
		{"a removed job", func() {
			_, err := s.pool.Exec(ctx, `WITH g AS (DELETE FROM job_made WHERE id = 'tst_gone' RETURNING n),
 h AS (DELETE FROM job_now USING g WHERE job_now.n = g.n) DELETE FROM event USING g WHERE event.job = g.n`)
			check(t, err)
		}, "tst_gone 0: the job was removed: anchor 1"},
		{"an inserted entry", func() {
			forge(t, s, "tst_longer", func(all []job.Event) []job.Event { return append(all, all[len(all)-1]) })
		}, "tst_longer 5: the entry was inserted: the anchors cover its number"},
	} {
		c.change()
		want = append(want, c.want)
		got := a.faults(export())
		if !slices.ContainsFunc(got, func(f string) bool { return strings.HasPrefix(f, c.want) }) ||
			len(got) != len(want) {
			t.Errorf("%s: %q, want also %q", c.what, got, c.want)
		}
	}
	if got := a.faults(a.export(s, t.TempDir(), s.Installation())); len(got) != 1 ||
		!strings.Contains(got[0], "there is no time stamp") {
		t.Errorf("without anchors: %q", got)
	}
}

// TestEntriesWait: a transaction has given a number to an entry and has not committed, while another server commits a
// later one. Entries waits for the first. The number alone, without waiting, names an entry that is not visible yet.
func TestEntriesWait(t *testing.T) {
	database := newDatabase(t)
	a, b := openStore(t, database, Options{CallerTime: true}), openStore(t, database, Options{CallerTime: true})
	ctx := t.Context()
	jobs, err := a.Create(ctx, newJob(storetest.Step, "tst_1"))
	check(t, err)
	move := func(event lifecycle.Event) {
		c, err := storetest.Transition(storetest.Step, jobs[0], event, lifecycle.Worker, start)
		check(t, err)
		r, err := a.Commit(ctx, c)
		check(t, err)
		check(t, r[0].Err)
		jobs[0] = r[0].Job
	}
	move("begin")
	move("next")
	lanes, err := a.connect(ctx) // with its locks, no job enters a lane, after its entry was written
	check(t, err)
	for bucket := range int32(laneBuckets) {
		_, err := lanes.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", int32(lockLanes), bucket)
		check(t, err)
	}
	created := make(chan error, 1)
	go func() {
		_, err := b.Create(ctx, newJob(storetest.Step, "tst_2"))
		created <- err
	}()
	waitForLock(t, a)
	move("finish") // an ended job has no lane
	seen := func() (last, n int64) {
		check(t, a.pool.QueryRow(ctx, selectLast).Scan(&last))
		check(t, a.pool.QueryRow(ctx, "SELECT count(*) FROM event").Scan(&n))
		return last, n
	}
	if last, n := seen(); last != 5 || n != 4 {
		t.Errorf("control: the number %d, and %d entries are seen", last, n)
	}
	entries := make(chan int64, 1)
	go func() {
		last, _, err := a.Entries(ctx)
		if err != nil {
			t.Error(err)
		}
		entries <- last
	}()
	for waiting := 0; waiting < 2; {
		check(t, a.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
 WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
	}
	check(t, lanes.Close(ctx))
	check(t, <-created)
	if last := <-entries; last != 5 {
		t.Errorf("the newest entry is %d", last)
	}
	if _, n := seen(); n != 5 {
		t.Errorf("%d entries are seen", n)
	}
}

// TestAnchorsBesideServers makes anchors while several servers write. The anchors have every history, each entry up to
// the number of the newest anchor is in one of them, and the export has no fault.
func TestAnchorsBesideServers(t *testing.T) {
	database, a := newDatabase(t), newAnchored(t)
	var servers []*Store
	for range 3 {
		servers = append(servers, openStore(t, database, Options{CallerTime: true}))
	}
	var all sync.WaitGroup
	var enough atomic.Bool
	begun := make(chan bool, 1)
	for i, s := range servers {
		for k := range 3 {
			all.Go(func() {
				for n := 0; !enough.Load(); n++ {
					if err := oneJob(t.Context(), s, job.ID(fmt.Sprintf("tst_%d_%d_%d", i, k, n))); err != nil {
						t.Error(err)
						enough.Store(true)
					}
					select {
					case begun <- true:
					default:
					}
				}
			})
		}
	}
	for range 6 {
		<-begun
		a.anchor(servers[0], servers[0].Installation())
	}
	enough.Store(true)
	all.Wait()
	s := servers[1]
	if got := a.faults(a.export(s, a.dir, s.Installation())); len(got) > 0 {
		t.Errorf("faults: %q", got)
	}
	text, err := os.ReadFile(filepath.Join(a.dir, "00000006.txt"))
	check(t, err)
	var through int64
	_, err = fmt.Sscanf(regexp.MustCompile(`entries: \d+ to (\d+)`).FindStringSubmatch(string(text))[1], "%d", &through)
	check(t, err)
	marked := map[job.ID]bool{}
	for i := range 6 {
		text, err := os.ReadFile(filepath.Join(a.dir, fmt.Sprintf("%08d.txt", i+1)))
		check(t, err)
		for _, line := range regexp.MustCompile(`(?m)^(tst_\S+) `).FindAllStringSubmatch(string(text), -1) {
			marked[job.ID(line[1])] = true
		}
	}
	covered := 0
	check(t, s.Histories(t.Context(), func(j *job.Job, _ []job.Event, numbers []int64, _ error) error {
		if covered++; numbers[0] <= through && !marked[j.ID] {
			t.Errorf("%s is in no anchor, its first entry is %d of %d", j.ID, numbers[0], through)
		}
		return nil
	}))
	if covered == 0 || len(marked) == 0 {
		t.Errorf("%d jobs, %d in anchors", covered, len(marked))
	}
}

// TestSameExport: an export of a store in SQLite that was migrated from one in PostgreSQL has the same histories and
// the same audit log, and the anchors from before the migration fit it.
func TestSameExport(t *testing.T) {
	database, a := newDatabase(t), newAnchored(t)
	ctx := t.Context()
	s := openStore(t, database, Options{CallerTime: true})
	_, err := script(ctx, s)
	check(t, err)
	check(t, oneJob(ctx, s, "tst_other"))
	a.anchor(s, s.Installation())
	check(t, oneJob(ctx, s, "tst_later"))
	installation := s.Installation()
	want := a.export(s, a.dir, installation)
	if got := a.faults(want); len(got) > 0 {
		t.Fatalf("faults: %q", got)
	}
	closeStore(t, s)
	from := openStore(t, database, Options{Migrates: true})
	dir := t.TempDir()
	to, err := sqlite.Open(dir, sqlite.Options{NoLog: true, Migrates: true})
	check(t, err)
	check(t, transfer.Copy(ctx, from.Content(), to.Content(), func(int64) error { return nil }))
	check(t, to.Close())
	other, err := sqlite.Open(dir, sqlite.Options{NoLog: true})
	check(t, err)
	defer func() { check(t, other.Close()) }()
	got := a.export(other, a.dir, other.Installation())
	if f := a.faults(got); len(f) > 0 {
		t.Errorf("faults after the migration: %q", f)
	}
	if diff := cmp.Diff(filesOf(t, want), filesOf(t, got)); diff != "" {
		t.Errorf("exports differ (-postgres +sqlite):\n%s", diff)
	}
	a.anchor(other, other.Installation()) // the next anchor, by the other store
	if f := a.faults(a.export(other, a.dir, other.Installation())); len(f) > 0 {
		t.Errorf("faults after the next anchor: %q", f)
	}
}

// filesOf are the files of an export, without the numbers of entries, which each store gives.
func filesOf(t *testing.T, export []byte) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, text := range ziptest.Files(t, export) {
		for line := range strings.Lines(text) {
			if name == "histories.jsonl" {
				var one map[string]any
				check(t, json.Unmarshal([]byte(line), &one))
				delete(one, "number")
				plain, err := json.Marshal(one)
				check(t, err)
				line = string(plain)
			}
			all[name] = append(all[name], line)
		}
	}
	return all
}

// TestSeries: the series does not need the rights of an administrator, and a restored copy has another one.
func TestSeries(t *testing.T) {
	s := openStore(t, newDatabase(t), Options{})
	ctx := t.Context()
	_, before, err := s.Entries(ctx)
	check(t, err)
	var series string
	check(t, pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		for _, statement := range []string{"CREATE ROLE plain", "GRANT SELECT ON event TO plain",
			"SET LOCAL ROLE plain"} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		err := tx.QueryRow(ctx, selectSeries).Scan(&series)
		if _, undo := tx.Exec(ctx, "RESET ROLE; DROP OWNED BY plain; DROP ROLE plain"); undo != nil {
			return undo
		}
		return err
	}))
	if series != before {
		t.Errorf("another role reads %q, not %q", series, before)
	}
	_, err = s.pool.Exec(ctx, `ALTER SEQUENCE entry OWNED BY NONE; ALTER TABLE event RENAME TO old;
 CREATE TABLE event (LIKE old INCLUDING ALL); DROP VIEW history; DROP TABLE old`)
	check(t, err)
	if _, after, err := s.Entries(ctx); err != nil || after == before {
		t.Errorf("a restored table has the series %q, as before, %v", after, err)
	}
}
