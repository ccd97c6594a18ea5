package sqlite

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/storetest"
)

// verified returns the faults of Verify by job.
func verified(t *testing.T, s *Store) (wrong []string) {
	t.Helper()
	if _, _, err := s.Verify(t.Context(), "", lives,
		func(id job.ID, err error) { wrong = append(wrong, fmt.Sprintf("%s: %v", id, err)) }); err != nil {
		t.Fatal(err)
	}
	return wrong
}

// A row that was edited is refused by reads, named by Verify and Fsck, left out by lists and not claimed; all others
// go on. Taken as it is, it is read again.
func TestEditedRecord(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{})
	workload(t, s, newDisk(t))
	create(t, s, "tst_waits", "tst_next")
	c := made("tst_waits2")
	c.Job.Owner, c.Job.Spec = "alice", []byte(`{"to":"archive"}`)
	if _, err := s.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	const victim = "(SELECT n FROM job_made WHERE id = 'tst_waits2')"
	for name, edit := range map[string]string{
		"owner":    "UPDATE job_made SET owner = 'mallory' WHERE n = " + victim,
		"spec":     `UPDATE job_made SET spec = '{"to":"elsewhere"}' WHERE n = ` + victim,
		"key":      "UPDATE job_made SET key = 'k' WHERE n = " + victim,
		"created":  "UPDATE job_made SET created = created + 1 WHERE n = " + victim,
		"priority": "UPDATE job_now SET priority = 1 WHERE n = " + victim,
		"message":  "UPDATE job_now SET message = 'all is well' WHERE n = " + victim,
		"due":      "UPDATE job_now SET due = 1 WHERE n = " + victim,
		"epoch":    "UPDATE job_now SET epoch = epoch + 1 WHERE n = " + victim,
		"data":     `INSERT INTO job_data VALUES (` + victim + `, '{}')`,
		"tags":     `UPDATE job_now SET tags = '["queue=b"]' WHERE n = ` + victim,
		"cut head": "UPDATE job_now SET head = x'00' WHERE n = " + victim,
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, whole)
			sql(t, dir, edit)
			editedRecord(t, dir, name != "cut head")
		})
	}
	word := snapshot(t, whole) // a word that many records have
	sql(t, word, "UPDATE word SET text = 'malice' WHERE text = 'owner1'")
	if wrong := verified(t, openStore(t, word, Options{})); len(wrong) == 0 {
		t.Error("a changed word of the dictionary is not noticed")
	}
	clean(t, openStore(t, whole, Options{})) // the control
}

func editedRecord(t *testing.T, dir string, readable bool) {
	t.Helper()
	const id job.ID = "tst_waits2"
	var reported []string
	s := openStore(t, dir, Options{OnDamage: func(err error) { reported = append(reported, err.Error()) }})
	_, err := s.Get(t.Context(), id)
	wantKind(t, "get", err, job.Internal)
	if !isDamage(err) || !strings.Contains(err.Error(), string(id)) {
		t.Errorf("get: %v", err)
	}
	wrong := verified(t, s)
	if len(wrong) != 1 || !strings.HasPrefix(wrong[0], string(id)+": the record") {
		t.Errorf("verify: %q", wrong)
	}
	if report, err := s.Fsck(t.Context(), lives, false); err != nil || !says(&report, string(id)) {
		t.Errorf("fsck: %v, %v", report.Faults, err)
	}
	for range 2 {
		page, err := s.List(t.Context(), job.Query{Oldest: true, Limit: 1000})
		if err != nil || len(page.Jobs) < 10 ||
			slices.ContainsFunc(page.Jobs, func(j job.Job) bool { return j.ID == id }) {
			t.Errorf("list: %d jobs, %v", len(page.Jobs), err)
		}
	}
	if len(reported) != 1 || !strings.Contains(reported[0], string(id)) {
		t.Errorf("reported: %q", reported)
	}
	claim := job.Claim{
		Worker: "w", From: []job.KindState{{Kind: job.Kind(storetest.Step.Name()), State: "Waiting"}}, N: 10,
		Now: testTime.Add(time.Hour), Lease: time.Hour,
	}
	claimed, err := s.Claim(t.Context(), claim)
	if err != nil || len(claimed) != 2 {
		t.Errorf("claim: %d jobs, %v; want the two others", len(claimed), err)
	}
	results, err := s.Commit(t.Context(), job.Change{Job: id, Version: 1, Event: "hold", At: testTime})
	if err != nil {
		t.Fatal(err)
	}
	wantKind(t, "commit", results[0].Err, job.Internal)
	closeStore(t, s)
	err = AcceptRecords(t.Context(), dir, "olga", "it was me", id)
	if !readable {
		wantKind(t, "accept what cannot be read", err, job.Internal)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	s = openStore(t, dir, Options{})
	if _, err := s.Get(t.Context(), id); err != nil {
		t.Error(err)
	}
	if list, err := s.Audit(t.Context(), 0, -1); err != nil || list[0].Event != acceptRecord ||
		list[0].Object != string(id) {
		t.Errorf("audit log: %+v, %v", list, err)
	}
	wantKind(t, "accept a job that does not exist", func() error {
		closeStore(t, s)
		return AcceptRecords(t.Context(), dir, "olga", "it was me", "tst_nobody")
	}(), job.NotFound)
}

// Tasks, messages and holds have checksums too.
func TestEditedParts(t *testing.T) {
	whole := t.TempDir()
	s := openStore(t, whole, Options{})
	workload(t, s, newDisk(t))
	closeStore(t, s)
	const child job.ID = "tst_child00"
	for name, c := range map[string]struct {
		edit, says string
		read       func(*Store) error
	}{
		"task": {"UPDATE task SET data = '{\"a\":1}'", `task "a"`, func(s *Store) error {
			_, err := s.Tasks(t.Context(), child)
			return err
		}},
		"message": {"UPDATE message SET body = '{\"to\":\"mallory\"}'", `message "tst_child00/report/1"`,
			func(s *Store) error {
				_, err := s.Replay(t.Context(), testTime, "tst_child00/report/1")
				return err
			}},
		"hold": {"UPDATE hold SET why = 'no reason'", "the hold on owner=1", nil},
		"history": {"UPDATE event SET note = 'another' WHERE note IS NOT NULL", "tst_child00", func(s *Store) error {
			_, err := s.History(t.Context(), child, 0, 0)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := snapshot(t, whole)
			sql(t, dir, c.edit)
			s := openStore(t, dir, Options{})
			if wrong := verified(t, s); !strings.Contains(strings.Join(wrong, "\n"), c.says) {
				t.Errorf("verify: %q", wrong)
			}
			if c.read != nil {
				wantKind(t, "read", c.read(s), job.Internal)
			}
		})
	}

	// A message that is damaged is not delivered; the others are, and the list shows what is wrong.
	s = openStore(t, whole, Options{})
	post := made("tst_post")
	for i := range 3 {
		post.Outbox = append(post.Outbox,
			job.Message{Key: fmt.Sprint("m", i), Job: "tst_post", Topic: "mail", Created: testTime, Due: testTime})
	}
	if _, err := s.Create(t.Context(), post); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	sql(t, whole, "UPDATE message SET body = '{\"to\":\"mallory\"}' WHERE key = 'm1'")
	s = openStore(t, whole, Options{})
	taken, err := s.Take(t.Context(), job.Taking{N: 10, Lease: time.Hour, Now: testTime})
	if err != nil || len(taken) != 2 {
		t.Errorf("taken: %+v, %v", taken, err)
	}
	listed, err := s.Messages(t.Context(), job.MessageQuery{Job: "tst_post"})
	if err != nil || len(listed) != 3 || !strings.Contains(listed[1].Error, "checksum") {
		t.Errorf("listed: %+v, %v", listed, err)
	}
}

// A bit that flips in the database is noticed or changes no answer.
func TestFlippedPages(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	workload(t, s, newDisk(t))
	want := contentsOf(t, s)
	closeStore(t, s)
	random := rand.New(rand.NewPCG(5, 6))
	noticed := 0
	for range *flips {
		dir := snapshot(t, dir)
		bit := flip(t, filepath.Join(dir, database), random)
		s, err := Open(dir, Options{})
		if err != nil {
			noticed++
			continue
		}
		for _, j := range want.Jobs {
			got, err := s.Get(t.Context(), j.ID)
			if err == nil && !cmp.Equal(got, j) {
				t.Errorf("bit %d: wrong answer without a word: %s", bit, cmp.Diff(j, got))
			}
			history, err := s.History(t.Context(), j.ID, 0, 0)
			if err == nil && !cmp.Equal(history, want.History[j.ID]) {
				t.Errorf("bit %d: wrong history without a word: %s", bit, cmp.Diff(want.History[j.ID], history))
			}
			tasks, err := s.Tasks(t.Context(), j.ID)
			if err == nil && len(tasks) == len(want.Tasks[j.ID]) && !cmp.Equal(tasks, want.Tasks[j.ID]) {
				t.Errorf("bit %d: wrong tasks without a word: %s", bit, cmp.Diff(want.Tasks[j.ID], tasks))
			}
		}
		report, err := s.Fsck(t.Context(), lives, false)
		if err != nil || !report.Clean() || len(verified(t, s)) > 0 {
			noticed++
		}
		_ = s.Close() // a damaged page may keep it from copying its log
	}
	t.Logf("%d bits flipped in pages, %d noticed", *flips, noticed)
}

// A job that was edited is refused under its key too, also where another change of the call names its id.
func TestKeyOfEditedRecord(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, Options{})
	keyed, batch, child := made("tst_keyed"), made("tst_batch"), made("tst_child")
	keyed.Job.Key, child.Job.Key = "k", "k"
	batch.Job.Children.Expected, child.Job.Parent = 1, "tst_batch"
	if _, err := s.Create(t.Context(), keyed, batch); err != nil {
		t.Fatal(err)
	}
	commit := func(want job.ErrorKind) {
		t.Helper()
		results, err := s.Commit(t.Context(),
			job.Change{Job: "tst_keyed", Version: 9, At: testTime},
			job.Change{Job: "tst_batch", Version: 1, Keep: true, At: testTime, Spawn: []job.Created{child}})
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, "commit", results[1].Err, want)
	}
	commit(job.Invalid) // the control: the job with the key is of no batch
	closeStore(t, s)
	sql(t, dir, "UPDATE job_now SET message = 'all is well' WHERE n = (SELECT n FROM job_made WHERE id = 'tst_keyed')")
	s = openStore(t, dir, Options{})
	commit(job.Internal)
	closeStore(t, s)
}
