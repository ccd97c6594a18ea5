package catalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/internal/headfile"
)

var (
	day  = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	sums = [2]string{strings.Repeat("ab", 32), strings.Repeat("cd", 64)}
)

func openAt(t *testing.T, path string, o Options) *Catalog {
	t.Helper()
	return openPlace(t, func(o Options) (*Catalog, error) { return Open(t.Context(), path, o) }, o)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}

func artifact(path string) Artifact {
	return Artifact{
		Path: path, Size: 10, SHA256: sums[0], SHA512: sums[1], Role: Payload, Activity: "quiz-1", Created: day,
	}
}

// fill enters one of everything and gives the errors of the first write that failed.
func fill(ctx context.Context, c *Catalog, job string) error {
	key := CopyKey{Location: "a", Generation: 1}
	var damaged Copy
	stored := Version{Location: "objects/main", Object: "urn:1", Name: "v1", Job: job, Stored: day, LastFixity: day}
	for _, f := range []func() error{
		func() error { return c.Begin(ctx, Archive{Job: job, Source: "moodle", Course: "7", Created: day}) },
		func() error {
			return c.PutActivity(ctx, Activity{
				Job: job, Activity: "quiz-1", Module: "quiz", Fingerprint: "f1", Items: 2, Archived: day,
			})
		},
		func() error {
			return c.PutFailure(ctx, Failure{
				Source: "moodle", Activity: "quiz-2", Fingerprint: "g", Job: job, At: day, Cause: "no right",
			})
		},
		func() error { return c.PutArtifacts(ctx, job, []Artifact{artifact("bag.tar"), artifact("job.json")}) },
		func() error {
			ada := Person{ID: "3", Username: "ada", Number: "M42", Name: "Ada Ünal", Email: "a@x.org"}
			return c.PutPeople(ctx, job, []Person{ada},
				[]Content{{Activity: "quiz-1", Person: "3", Item: "attempt-1", Kind: "attempt", Path: "bag.tar"}})
		},
		func() error { return c.Plan(ctx, job, []string{"a", "b"}, day.AddDate(1, 0, 0), day) },
		func() (err error) {
			a, err := c.Artifact(ctx, job, "bag.tar")
			key.Artifact = a.ID
			return err
		},
		func() error { return c.SaveProgress(ctx, key, []byte(`{"id":1}`)) },
		func() error {
			return c.PutAttempts(ctx, []Attempt{{CopyKey: key, At: day, Next: day.AddDate(0, 1, 0)}})
		},
		func() error {
			r := Checked{CopyKey: key, Fixity: Corrupt, Found: sums[1], At: day.AddDate(0, 1, 0),
				Next: day.AddDate(0, 2, 0)}
			e := Event{Key: "fixity/1", Job: job, Type: "fixity check", Outcome: "failure"}
			return c.PutChecked(ctx, []Checked{r}, e)
		},
		func() (err error) { damaged, err = c.PlanReplacement(ctx, key, day); return err },
		func() error {
			return c.PutAttempts(ctx, []Attempt{{CopyKey: damaged.CopyKey, At: day, Next: day.AddDate(0, 1, 0)}})
		},
		func() error { return c.Replace(ctx, key, 2, Event{Key: "replace/1", Job: job, Type: "replication"}) },
		func() error { return c.PutDeleted(ctx, key, "stagepost", "damaged", day) },
		func() error {
			_, err := c.PutToken(ctx, Token{Subject: job + "/bag.tar", Generation: 1, Job: job, Imprint: sums[0],
				Query: []byte{1}, Reply: []byte{2}, Expires: day.AddDate(0, 0, 9)}, Event{Key: "token/1", Job: job})
			return err
		},
		func() error { return c.PutVersion(ctx, stored) },
		func() error {
			r := VersionResult{Version: stored, At: day.Add(time.Hour), Next: day.AddDate(0, 1, 0), Bytes: 7, Healed: 1,
				Faults: []VersionFault{{Path: "v1/content/a", Kind: "changed", Since: day}}}
			return c.PutVersionChecked(ctx, r, Event{Key: "version/1", Job: job, Type: "fixity check"})
		},
		func() error { _, err := c.Location(ctx, "a", day); return err },
		func() error { return c.Mark(ctx, "a", day) },
		func() error { return c.Hold(ctx, Hold{Job: job, Name: "court", By: "eve", Since: day}) },
		func() error { return c.Release(ctx, job, "court", "eve", day) },
		func() error { return c.End(ctx, job, Complete, day) },
		func() error {
			_, err := c.RequestDeletion(ctx, Deletion{ID: "d1", Job: job, RequestedBy: "eve", Reason: "wrong course",
				Requested: day})
			return err
		},
		func() error { _, err := c.DecideDeletion(ctx, "d1", "bob", true, day); return err },
		func() error { _, err := c.BeginDeletion(ctx, "d1", day); return err },
		func() error { return deleteCopies(ctx, c, job) },
		func() error { _, err := c.EndDeletion(ctx, "d1", day); return err },
		func() error {
			_, err := c.Erase(ctx, "moodle", "3", Erasure{ID: "e1", By: "eve", Reason: "request", At: day})
			return err
		},
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

func deleteCopies(ctx context.Context, c *Catalog, job string) error {
	all, err := c.Copies(ctx, job, "")
	for _, k := range all {
		err = errors.Join(err, c.PutDeleted(ctx, k.CopyKey, "eve", "wrong course", day))
	}
	return err
}

var errCrash = errors.New("the process crashed")

// dump gives all rows but the number of writes, and ids that are random or have gaps, in any order.
func dump(t *testing.T, c *Catalog) (out []string) {
	t.Helper()
	for _, table := range tables.Names {
		if table == "meta" {
			continue
		}
		rows, err := c.read.QueryContext(t.Context(), "SELECT * FROM "+table)
		must(t, err)
		columns, err := rows.Columns()
		must(t, err)
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			must(t, rows.Scan(values...))
			line := table
			for i, v := range values {
				if v := *v.(*any); columns[i] != "id" || table != "locations" && table != "events" {
					line += fmt.Sprintf(" %s=%v", columns[i], v)
				}
			}
			out = append(out, line)
		}
		must(t, rows.Err())
		must(t, rows.Close())
	}
	slices.Sort(out)
	return out
}

// TestEveryWriteMayBeRepeated crashes before and after each write, starts anew, and repeats everything: the content is
// the same as without a crash, except that attempts are counted.
func TestEveryWriteMayBeRepeated(t *testing.T) { inEach(t, testEveryWriteMayBeRepeated) }

func testEveryWriteMayBeRepeated(t *testing.T, open opener) {
	plain := open.new(t, Options{})
	must(t, fill(t.Context(), plain, "j1"))
	expected := dump(t, plain)
	count := 0
	for n := 1; ; n += open.stride {
		again, crashed := open.target(t), false
		at := 0
		crash := func(string) error {
			if at++; at == n {
				crashed = true
				return errCrash
			}
			return nil
		}
		c := openPlace(t, again, Options{Before: crash, After: crash})
		err := fill(t.Context(), c, "j1")
		if !crashed {
			must(t, err)
			break
		}
		want(t, err, errCrash)
		must(t, c.Close())
		c = openPlace(t, again, Options{})
		must(t, fill(t.Context(), c, "j1"))
		if diff := cmp.Diff(expected, dump(t, c)); diff != "" {
			t.Fatalf("crash %d: %s", n, diff)
		}
		must(t, c.Close())
		count++
	}
	if count < 40/open.stride {
		t.Errorf("only %d crashes", count)
	}
}

func TestConflicts(t *testing.T) { inEach(t, testConflicts) }

func testConflicts(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	begin := Archive{Job: "j1", Source: "moodle", Course: "7", Created: day}
	must(t, c.Begin(ctx, begin))
	begin.Course = "8"
	want(t, c.Begin(ctx, begin), ErrConflict)
	want(t, c.PutArtifacts(ctx, "j2", []Artifact{artifact("a")}), ErrNotFound)
	bad := artifact("a")
	for _, sum := range []string{"", "ab", strings.Repeat("AB", 32), strings.Repeat("xy", 32)} {
		bad.SHA256 = sum
		if err := c.PutArtifacts(ctx, "j1", []Artifact{bad}); err == nil {
			t.Errorf("the sum %q is stored", sum)
		}
	}
	must(t, c.PutArtifacts(ctx, "j1", []Artifact{artifact("a")}))
	other := artifact("a")
	other.SHA256 = strings.Repeat("12", 32)
	must(t, c.PutArtifacts(ctx, "j1", []Artifact{other})) // nothing is stored of it
	must(t, c.Plan(ctx, "j1", []string{"x"}, time.Time{}, day))
	want(t, c.PutArtifacts(ctx, "j1", []Artifact{artifact("a")}), ErrConflict)
	must(t, c.PutArtifacts(ctx, "j1", []Artifact{other}))

	all, err := c.Copies(ctx, "j1", "")
	must(t, err)
	_, err = c.PlanReplacement(ctx, all[0].CopyKey, day)
	must(t, err)
	want(t, c.Replace(ctx, all[0].CopyKey, 2, Event{Key: "r"}), ErrConflict) // it is not verified

	must(t, c.End(ctx, "j1", Failed, day))
	want(t, c.End(ctx, "j1", Complete, day), ErrConflict)
	must(t, c.End(ctx, "j1", Failed, day.Add(time.Hour)))
	want(t, c.PutActivity(ctx, Activity{Job: "j1", Activity: "x"}), ErrConflict)
	got, err := c.Archive(ctx, "j1")
	if must(t, err); !got.Ended.Equal(day) {
		t.Errorf("the first end does not hold: %s", got.Ended)
	}
}

func TestOverview(t *testing.T) { inEach(t, testOverview) }

func testOverview(t *testing.T, open opener) {
	c, ctx, backoff := open.new(t, Options{}), t.Context(), Backoff{First: time.Hour, Most: 3 * time.Hour}
	for i, a := range []struct{ job, activity, fingerprint string }{
		{"j1", "same", "1"}, {"j1", "changed", "1"}, {"j1", "gone", "1"}, {"j2", "changed", "2"}, {"j3", "half", "1"},
		{"j4", "expired", "1"},
	} {
		must(t, c.Begin(ctx, Archive{Job: a.job, Source: "s", Course: "7", Created: day}))
		must(t, c.PutActivity(ctx, Activity{
			Job: a.job, Activity: a.activity, Fingerprint: a.fingerprint,
			Archived: day.Add(time.Duration(i) * time.Hour),
		}))
	}
	for job, outcome := range map[string]Outcome{"j1": Complete, "j2": Complete, "j3": Failed, "j4": Complete} {
		must(t, c.End(ctx, job, outcome, day))
	}
	_, err := c.RequestDeletion(ctx, Deletion{ID: "d", Job: "j4", RequestedBy: "timer", Requested: day})
	must(t, err)
	_, err = c.BeginDeletion(ctx, "d", day)
	must(t, err)
	_, err = c.EndDeletion(ctx, "d", day)
	must(t, err)
	for i := range 3 {
		f := Failure{
			Source: "s", Activity: "half", Fingerprint: "1", Job: fmt.Sprint("f", i), At: day, Cause: "no right",
		}
		must(t, c.Begin(ctx, Archive{Job: f.Job, Source: "s", Course: "7", Created: day}))
		must(t, c.PutFailure(ctx, f))
		must(t, c.PutFailure(ctx, f))
	}
	rows, err := c.Overview(ctx, "s", "7", []Current{
		{"same", "1"}, {"changed", "3"}, {"half", "1"}, {"new", "1"}, {"expired", "1"}, {"gone2", ""},
	}, backoff)
	must(t, err)
	got := map[string]string{}
	for _, r := range rows {
		got[r.Activity] = fmt.Sprintf("%s %s %d", r.State, r.Newest.Job, r.Attempts.Failures)
		if r.Activity == "half" && !r.Attempts.Next.Equal(day.Add(3*time.Hour)) {
			t.Errorf("next attempt %s", r.Attempts.Next)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"same": "archived j1 0", "changed": "changed j2 0", "half": "missing  3", "new": "missing  0",
		"expired": "expired j4 0", "gone2": "missing  0", "gone": "removed j1 0",
	}, got); diff != "" {
		t.Error(diff)
	}
	for at, want := range map[time.Duration]string{
		time.Minute: "[half of 7 3 15:00]", 3*time.Hour - 1: "[half of 7 3 15:00]", 3 * time.Hour: "[]",
	} {
		all, err := c.Waiting(ctx, "s", backoff, day.Add(at))
		must(t, err)
		got := []string{}
		for _, w := range all {
			got = append(got, fmt.Sprintf("%s of %s %d %s", w.Activity, w.Course, w.Failures, w.Next.Format("15:04")))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("after %s: %s wait, want %s", at, got, want)
		}
	}
	if a, err := c.Attempts(ctx, "s", "half", "2", backoff); err != nil || a.Failures != 0 {
		t.Errorf("another fingerprint: %+v, %v", a, err)
	}
	must(t, c.Begin(ctx, Archive{Job: "j9", Source: "s", Course: "7", Created: day}))
	must(t, c.PutActivity(ctx, Activity{Job: "j9", Activity: "half", Fingerprint: "1", Archived: day}))
	must(t, c.End(ctx, "j9", Complete, day))
	if a, err := c.Attempts(ctx, "s", "half", "1", backoff); err != nil || a.Failures != 0 {
		t.Errorf("after success: %+v, %v", a, err)
	}
	must(t, c.PutFailure(ctx, Failure{ // of other content, not after the success
		Source: "s", Activity: "half", Fingerprint: "0", Job: "j9", At: day, Cause: "no right",
	}))
	if all, err := c.Waiting(ctx, "s", backoff, day.Add(time.Minute)); err != nil || len(all) != 0 {
		t.Errorf("after success: %+v, %v", all, err)
	}
	must(t, c.PutFailure(ctx, Failure{
		Source: "s", Activity: "half", Fingerprint: "0", Job: "j10", At: day.Add(1), Cause: "no right",
	}))
	if all, err := c.Waiting(ctx, "s", backoff, day.Add(time.Minute)); err != nil || len(all) != 1 ||
		all[0].Failures != 2 || all[0].Job != "j10" || all[0].Course != "" {
		t.Errorf("a failure after success: %+v, %v", all, err)
	}
}

func TestPeople(t *testing.T) { inEach(t, testPeople) }

func testPeople(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	must(t, c.Begin(ctx, Archive{Job: "j1", Source: "s", Created: day}))
	people := []Person{
		{ID: "3", Username: "ada", Number: "M42", Name: "Ada Ünal", Email: "Ada@x.org"},
		{ID: "4", Username: "bob", Number: "M43", Name: "Bob", Email: "b@x.org"},
	}
	must(t, c.PutPeople(ctx, "j1", people, []Content{
		{Activity: "q", Person: "3", Item: "1", Kind: "attempt"},
		{Activity: "q", Person: "4", Item: "2", Kind: "attempt"},
	}))
	for text, want := range map[string]int{
		"ADA": 1, "m42": 1, "ada@X.ORG": 1, " ünal ": 1, "Ü": 0, "3": 1, "nothing": 0, "bo": 0, "bob": 1, "%": 0,
	} {
		if got, err := c.People(ctx, text, 0); err != nil || len(got) != want {
			t.Errorf("%q finds %v, %v", text, got, err)
		}
	}
	e, err := c.Erase(ctx, "s", "3", Erasure{ID: "e1", By: "eve", Reason: "request of 2 March", At: day})
	if must(t, err); e.Contents != 1 || !slices.Equal(e.Archives, []string{"j1"}) {
		t.Errorf("got %+v", e)
	}
	if left, err := c.ContentsOf(ctx, "s", "3"); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v", left, err)
	}
	if left, err := c.ContentsOf(ctx, "s", "4"); err != nil || len(left) != 1 {
		t.Errorf("got %v, %v", left, err)
	}
	for _, line := range dump(t, c) {
		if strings.Contains(line, "Ada") || strings.Contains(line, "M42") {
			t.Errorf("the person is still there: %s", line)
		}
	}
}

// TestQueriesUseIndexes: what grows with the number of archives is not read as a whole.
func TestQueriesUseIndexes(t *testing.T) {
	c := inFile.new(t, Options{})
	for _, q := range []struct{ query, index string }{
		{`SELECT * FROM copies AS c WHERE c.location = 'a' AND c.next_fixity <= 'x' AND c.verified <> '' AND
			c.deleted = '' AND c.replaced = 0 ORDER BY c.next_fixity LIMIT 1`, "copies_due (location=? AND next_fixity<?)"},
		{"SELECT * FROM contents WHERE source = 's' AND person = 'p'", "contents_person (source=? AND person=?)"},
		{"SELECT * FROM activities WHERE source = 's' AND course = 'c'", "activities_course (source=? AND course=?)"},
		{"SELECT * FROM activities WHERE source = 's' AND activity = 'c'",
			"activities_activity (source=? AND activity=?)"},
		{"SELECT * FROM current_tokens WHERE expires < 'x'", "current_tokens_expires (expires<?)"},
	} {
		plan, err := each(t.Context(), c.read, func(r row) (text string, err error) {
			var n int
			err = r.Scan(&n, &n, &n, &text)
			return text, err
		}, "EXPLAIN QUERY PLAN "+q.query)
		text := strings.Join(plan, "\n")
		if err != nil || !strings.Contains(text, q.index) || strings.Contains(text, "TEMP") {
			t.Errorf("%s: %s, %v", q.query, text, err)
		}
	}
}

func TestDueAndExpiring(t *testing.T) { inEach(t, testDueAndExpiring) }

func testDueAndExpiring(t *testing.T, open opener) {
	c, ctx := open.new(t, Options{}), t.Context()
	must(t, c.Begin(ctx, Archive{Job: "j1", Source: "s", Created: day}))
	must(t, c.PutArtifacts(ctx, "j1", []Artifact{artifact("a"), artifact("b"), artifact("c")}))
	must(t, c.Plan(ctx, "j1", []string{"x"}, time.Time{}, day))
	all, err := c.Copies(ctx, "j1", "")
	must(t, err)
	for i, k := range all[:2] {
		at := day.Add(-time.Duration(i) * time.Hour)
		must(t, c.PutAttempts(ctx, []Attempt{{CopyKey: k.CopyKey, At: at, Next: at.AddDate(0, 1, 0)}}))
	}
	due := func(at time.Time, n int) []Copy {
		t.Helper()
		all, err := c.Due(ctx, "x", at, 0)
		if err != nil || len(all) != n {
			t.Fatalf("%d are due, %v", len(all), err)
		}
		return all
	}
	due(day, 0)
	for i, path := range []string{"b", "a"} { // oldest first
		next := due(day.AddDate(0, 2, 0), 2-i)[0]
		if next.Of.Path != path {
			t.Errorf("due is %s, want %s", next.Of.Path, path)
		}
		must(t, c.PutChecked(ctx, []Checked{{
			CopyKey: next.CopyKey, Fixity: Intact, At: day.AddDate(0, 2, 0), Next: day.AddDate(0, 3, 0),
		}}))
	}
	due(day.AddDate(0, 2, 0), 0)
	must(t, c.RequestCheck(ctx, "x", day.AddDate(0, 2, 1)))
	due(day.AddDate(0, 2, 1), 2)
	s, err := c.LocationStates(ctx)
	if must(t, err); len(s) != 1 || s[0].Copies != 2 || s[0].Behind != 1 || s[0].Bytes != 20 {
		t.Errorf("got %+v", s)
	}
	must(t, c.End(ctx, "j1", Complete, day))
	if behind, err := c.Behind(ctx, "x", day.Add(1), 0); err != nil || len(behind) != 1 || behind[0].Of.Path != "c" {
		t.Errorf("got %+v, %v", behind, err)
	}
	for i, subject := range []string{"s1", "s2", "s1"} {
		_, err := c.PutToken(ctx, Token{
			Subject: subject, Generation: 1 + i/2, Job: "j1", Query: []byte{}, Reply: []byte{},
			Expires: day.AddDate(i, 0, 0),
		}, Event{Key: fmt.Sprint("t", i)})
		must(t, err)
	}
	tokens, err := c.Expiring(ctx, day.AddDate(1, 0, 1), 0)
	if must(t, err); len(tokens) != 1 || tokens[0].Subject != "s2" {
		t.Errorf("got %+v", tokens)
	}
	tokens, err = c.Expiring(ctx, day.AddDate(3, 0, 0), 0)
	if must(t, err); len(tokens) != 2 || tokens[1].Generation != 2 {
		t.Errorf("got %+v", tokens)
	}
}

// TestOtherFile refuses a file that is not the one that was written last.
func TestOtherFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), Name)
	c := openAt(t, path, Options{Installation: "one"})
	must(t, c.Close())
	older, err := os.ReadFile(path)
	must(t, err)
	c = openAt(t, path, Options{Installation: "one"})
	must(t, c.Begin(t.Context(), Archive{Job: "j", Source: "s", Created: day}))
	must(t, c.Close())
	_, err = Open(t.Context(), path, Options{Installation: "two"})
	want(t, err, headfile.ErrForeign)
	must(t, os.WriteFile(path, older, 0o600))
	_, err = Open(t.Context(), path, Options{Installation: "one"})
	want(t, err, headfile.ErrOlder)
	must(t, os.Remove(path))
	_, err = Open(t.Context(), path, Options{Installation: "one"})
	want(t, err, headfile.ErrMissing)
}
