package sqlite

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/log"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
)

// fact is an answer to a caller: a record as of a version with its words, a hold, a message, a purge, a number of
// entries in the audit log.
type fact struct {
	job     job.ID
	version int64
	seq     int64
	words   string
	hold    string
	message string
	settled bool
	purged  job.ID
	entries int
}

// workload is a workload with everything a store writes: creation with keys, claims, transitions, children, tasks,
// holds, messages. It reports to the disk what was acknowledged.
func workload(t *testing.T, s *Store, d *disk) {
	t.Helper()
	ctx := t.Context()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	acked := func(j job.Job) { d.acknowledged(fact{job: j.ID, version: j.Version, seq: j.Seq, words: j.Words}) }
	commit := func(c job.Change) job.Job {
		results, err := s.Commit(ctx, c)
		if err != nil || results[0].Err != nil {
			t.Fatal("commit:", err, results)
		}
		acked(results[0].Job)
		return results[0].Job
	}
	move := func(j job.Job, life *lifecycle.Table, e lifecycle.Event, by lifecycle.Actor,
		with func(*job.Change)) job.Job {
		c, err := storetest.Transition(life, j, e, by, at)
		if err != nil {
			t.Fatal(err)
		}
		if with != nil {
			with(&c)
		}
		return commit(c)
	}
	claim := func(life *lifecycle.Table, n int) []job.Job {
		jobs, err := s.Claim(ctx, job.Claim{
			Worker: "worker-1", From: []job.KindState{{Kind: job.Kind(life.Name()), State: "Waiting"}}, N: n, Now: at,
			Lease: time.Hour,
		})
		if err != nil || len(jobs) == 0 {
			t.Fatal("claim:", err, len(jobs))
		}
		for _, j := range jobs {
			acked(j)
		}
		return jobs
	}
	created := func(list ...job.Created) {
		jobs, err := s.Create(ctx, list...)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			acked(j)
		}
	}
	for round := range 3 {
		batch := newJob(storetest.Batch, fmt.Sprintf("tst_batch%d", round), at, func(j *job.Job) {
			j.Key, j.Owner, j.Children.Expected = "key", fmt.Sprintf("owner%d", round), 3
			j.Words = "batch maps"
		})
		created(batch)
		j := claim(storetest.Batch, 1)[0]
		move(j, storetest.Batch, "begin", lifecycle.Worker, func(c *job.Change) {
			for i := range 3 {
				c.Spawn = append(c.Spawn,
					newJob(storetest.Step, fmt.Sprintf("tst_child%d%d", round, i), at, func(j *job.Job) {
						j.Parent, j.Group = batch.Job.ID, "maps"
					}))
			}
		})
		maps := job.Hold{Scope: job.Scope{Group: "maps"}, Who: "alice", Why: "audit", Since: at}
		owner := job.Hold{Scope: job.Scope{Owner: fmt.Sprint(round)}, Who: "alice", Why: "audit", Since: at}
		_, err1 := s.Hold(ctx, maps)
		_, err2 := s.Release(ctx, maps)
		_, err3 := s.Hold(ctx, owner)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		d.acknowledged(fact{hold: job.Scope{Owner: fmt.Sprint(round)}.String()})
		for i, j := range claim(storetest.Step, 3) {
			if _, err := s.Renew(ctx,
				job.Renewal{Worker: "worker-1", Leases: []job.Lease{{Job: j.ID, Epoch: j.Epoch}},
					Lease: 2 * time.Hour, Now: at}); err != nil {
				t.Fatal(err)
			}
			words := fmt.Sprintf("sheet%d tiles", i)
			j = move(j, storetest.Step, "begin", lifecycle.Worker, func(c *job.Change) {
				c.Set.Words = &words
				c.Set.Data = json.RawMessage(fmt.Sprintf(`{"round":%d}`, round))
				c.Tasks = []job.Task{{Name: "a", Kind: "task", State: "Done", Data: json.RawMessage(`{}`), Changed: at}}
				c.Chain = &job.Chain{Worker: "worker-1", Lease: time.Hour}
			})
			j = move(j, storetest.Step, "next", lifecycle.Worker, func(c *job.Change) { c.Keep = true })
			event := lifecycle.Event("finish")
			if i == 1 {
				event, words = "fail", "" // the words are removed
			}
			key := fmt.Sprintf("%s/report/1", j.ID)
			move(j, storetest.Step, event, lifecycle.Worker, func(c *job.Change) {
				c.Note, c.Set.Words = "a note", &words
				c.Outbox = []job.Message{{Key: key, Job: j.ID, Topic: "mail", Body: json.RawMessage(`{}`), Created: at,
					Due: at}}
			})
			d.acknowledged(fact{message: key})
			if err := s.Settle(ctx, job.Message{Key: key, Settled: job.Delivered}); err != nil {
				t.Fatal(err)
			}
			d.acknowledged(fact{message: key, settled: true})
		}
		if round == 1 {
			purgeOne(t, s, d, at)
		}
	}
}

// purgeOne is the part of the workload that people cause: a job with tags is cancelled, reported, deleted and purged.
func purgeOne(t *testing.T, s *Store, d *disk, at time.Time) {
	t.Helper()
	const id job.ID = "tst_purged"
	jobs, err := s.Create(t.Context(), newJob(storetest.Step, string(id), at, func(j *job.Job) {
		j.Tags, j.Bytes, j.Key = job.Tagged("queue=a", "place=main"), 7, "purged"
		j.Words = "purged tiles"
	}))
	if err != nil {
		t.Fatal(err)
	}
	j := jobs[0]
	commit := func(c job.Change) {
		results, err := s.Commit(t.Context(), c)
		if err != nil || results[0].Err != nil {
			t.Fatal("commit:", err, results)
		}
		j = results[0].Job
	}
	for _, e := range []lifecycle.Event{"cancel", "delete"} {
		c, err := storetest.Transition(storetest.Step, j, e, lifecycle.Operator, at)
		if err != nil {
			t.Fatal(err)
		}
		if e == "cancel" {
			c.Tasks = []job.Task{{Name: "a", Kind: "task", State: "Done", Changed: at}}
			c.Outbox = []job.Message{{Key: string(id), Job: id, Topic: "mail", Created: at, Due: at}}
		}
		commit(c)
	}
	settled := job.Message{Key: string(id), Settled: job.Delivered, Tried: []job.Attempt{{At: at}}}
	if err := s.Settle(t.Context(), settled); err != nil {
		t.Fatal(err)
	}
	commit(job.Change{Job: id, Version: j.Version, Purge: true, By: lifecycle.Operator, Actor: "olga", At: at})
	d.acknowledged(fact{purged: id})
	list, err := s.Audit(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	d.acknowledged(fact{entries: len(list)})
}

// newJob makes a job of one of storetest's lifecycles.
func newJob(life *lifecycle.Table, id string, at time.Time, with func(*job.Job)) job.Created {
	j := job.Job{
		ID: job.ID(id), Kind: job.Kind(life.Name()), Position: life.Start(), Priority: job.DefaultPriority,
		Definition: life.Hash(), Spec: json.RawMessage(`{"made":true}`),
	}
	with(&j)
	j, e := job.New(j, lifecycle.Owner, "alice", at)
	return job.Created{Job: j, Event: e}
}

func lives(k job.Kind) *lifecycle.Table {
	for _, life := range []*lifecycle.Table{storetest.Step, storetest.Batch} {
		if life.Name() == string(k) {
			return life
		}
	}
	return nil
}

// The two orders in which a head and its commit may come to the disk; in parallel, they are mixed.
func headFirst(head, commit func() error) error {
	if err := head(); err != nil {
		return err
	}
	return commit()
}

func headLast(head, commit func() error) error { return headFirst(commit, head) }

// record runs the workload on a disk that writes down what is done to it.
func record(t *testing.T, o Options) []diskOp {
	t.Helper()
	var d *disk
	if !o.NoLog {
		o.logTap = func(op log.Op) error { return d.frontLog(op) }
	}
	return recordOn(t, &d, o)
}

// recordOn is record with a new disk in to.
func recordOn(t *testing.T, to **disk, o Options) []diskOp {
	t.Helper()
	d := newDisk(t)
	*to = d
	o.vfs, o.frames, o.Readers, o.tap = d.name, 40, 1, d.head
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	workload(t, s, d)
	closeStore(t, s)
	return d.log
}

// damage is what reopening an image shows.
type damage struct{ images, lost, broken int }

// cutPower reopens what a power cut leaves after each write that cut chooses, and reports what is missing, until
// report gives false.
func cutPower(t *testing.T, log []diskOp, cut func(i int, op *diskOp) bool,
	report func(string, ...any) bool) (total damage) {
	t.Helper()
	return cutPowerBy(t, log, patterns(rand.New(rand.NewPCG(1, 2))), cut, report)
}

// cutPowerBy is cutPower with other sectors that are lost.
func cutPowerBy(t *testing.T, log []diskOp, patterns []pattern, cut func(i int, op *diskOp) bool,
	report func(string, ...any) bool) (total damage) {
	t.Helper()
	im := &image{files: map[string]*imageFile{}}
	var acks []fact
	room := imageDir(t)
	for i, op := range log {
		if op.kind == 'a' {
			acks = append(acks, op.ack)
			continue
		}
		im.follow(op)
		for _, p := range patterns {
			if p.name == "all lost" && op.kind != 's' && i+1 < len(log) && log[i+1].kind != 'a' {
				continue // the disk holds what it held before
			}
			if !cut(i, &op) {
				continue
			}
			total.images++
			dir := filepath.Join(room, fmt.Sprint(total.images%8))
			if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
			im.write(t, dir, p.begin())
			lost, broken := examine(t, dir, acks)
			if lost != "" {
				total.lost++
			}
			if broken != "" {
				total.broken++
			}
			if lost+broken != "" && !report("cut after operation %d (%c %s), %s: %s %s", i, op.kind, op.file, p.name,
				lost, broken) {
				return total
			}
		}
	}
	return total
}

// imageDir is a directory for images, in memory if possible.
func imageDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "stagepost-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// examine opens an image as the next start would and compares it with the answers to callers.
func examine(t *testing.T, dir string, acks []fact) (lost, broken string) {
	t.Helper()
	s, err := Open(dir, Options{Readers: 1, NoLog: len(acks)%2 == 1, logSize: 16 << 10})
	if err != nil {
		return "", err.Error()
	}
	defer closeStore(t, s)
	ctx := t.Context()
	report, err := s.Fsck(ctx, lives, false)
	if err != nil || !report.Clean() {
		broken = fmt.Sprint("fsck: ", err, report.Faults)
	}
	if _, _, err := s.Verify(ctx, "", lives,
		func(id job.ID, err error) { broken = fmt.Sprint(id, ": ", err) }); err != nil {
		broken = err.Error()
	}
	holds, err := s.Holds(ctx)
	if err != nil {
		return "", err.Error()
	}
	on := map[string]bool{}
	for _, h := range holds {
		on[h.Scope.String()] = true
	}
	for _, f := range acks {
		switch {
		case f.job != "":
			j, err := s.Get(ctx, f.job)
			if err != nil || j.Version < f.version || j.Seq < f.seq {
				lost = fmt.Sprintf("%s was acknowledged in version %d, is in %d (%v)", f.job, f.version, j.Version, err)
			} else if j.Version == f.version && j.Words != f.words {
				lost = fmt.Sprintf("the words %q of %s, which has %q", f.words, f.job, j.Words)
			}
		case f.hold != "" && !on[f.hold]:
			lost = "the hold on " + f.hold
		case f.purged != "":
			if _, err := s.Get(ctx, f.purged); job.KindOf(err) != job.NotFound {
				lost = fmt.Sprintf("the purge of %s (%v)", f.purged, err)
			}
		case f.entries > 0:
			if list, err := s.Audit(ctx, 0, 1000); err != nil || len(list) < f.entries {
				lost = fmt.Sprintf("%d of %d entries of the audit log (%v)", f.entries-len(list), f.entries, err)
			}
		case f.message != "":
			m, err := job.MessagesOf(ctx, s, messageJob(f.message))
			if err != nil || len(m) != 1 || (f.settled && m[0].Settled != job.Delivered) {
				lost = fmt.Sprint("message ", f.message, m, err)
			}
		}
	}
	return lost, broken
}

func messageJob(key string) job.ID { return job.ID(filepath.Dir(filepath.Dir(key))) }

var (
	cuts        = flag.Int("cuts", cutStride, "TestPowerCut: cut after every so-manieth write")
	transitions = flag.Int("transitions", 40, "TestCrashWithLog: of so many transitions, one is tried; 1: all, and whole lives")
)

// every chooses every n-th of the operations that choose chooses.
func every(n int, choose func(*diskOp) bool) func(int, *diskOp) bool {
	seen, last := -1, -1
	return func(i int, op *diskOp) bool {
		if !choose(op) {
			return false
		}
		if i != last { // the same operation is asked for once for each pattern
			seen, last = seen+1, i
		}
		return seen%n == 0
	}
}

// everywhere cuts the power after every write, or after every n-th of them.
func everywhere() func(int, *diskOp) bool { return every(*cuts, func(*diskOp) bool { return true }) }

// atHeads cuts it where the head file and the log overtake each other.
func atHeads() func(int, *diskOp) bool {
	return every(min(*cuts, headStride), func(op *diskOp) bool {
		return op.file == headName && op.kind != 'w' || op.file == database+"-wal" && op.kind == 's'
	})
}

// A power cut after any write loses nothing that was acknowledged and leaves a database that is sound (E11), and is
// not refused because of its head.
func TestPowerCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		order func(head, commit func() error) error
		cut   func(int, *diskOp) bool
	}{
		{"in parallel", nil, everywhere()}, {"head first", headFirst, atHeads()}, {"head last", headLast, atHeads()},
	} {
		log := record(t, Options{NoLog: true, order: c.order})
		got := cutPower(t, log, c.cut, func(format string, args ...any) bool {
			t.Errorf(c.name+": "+format, args...)
			return true
		})
		t.Logf("%s: %d operations, %d images", c.name, len(log), got.images)
		if got.images < 40 {
			t.Errorf("%d images are too few", got.images)
		}
	}
}

// The control: without the sync of every commit the same cuts lose what was acknowledged, so the test can see it.
func TestPowerCutControl(t *testing.T) {
	recorded := record(t, Options{NoLog: true, sync: "NORMAL"})
	got := cutPower(t, recorded, everywhere(), func(string, ...any) bool { return false })
	t.Logf("%d images, %d lost something", got.images, got.lost+got.broken)
	if got.lost+got.broken == 0 {
		t.Error("nothing was lost with synchronous=NORMAL: the test is blind")
	}
}
