package merritt

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// pending makes a batch with one job in Pending, without a running engine: by events that a worker would cause.
func (h *harness) pending() (batch, one job.Job) {
	h.Helper()
	batch = h.submit("hello")
	h.f.app, h.f.engine = h.app, h.engine
	n := 1
	results, err := h.store.Commit(h.Context(), job.Change{Job: batch.ID, Version: batch.Version,
		Set: job.Fields{Expected: &n}})
	h.ok(err)
	h.ok(results[0].Err)
	h.do(batch.ID, record.Begin, lifecycle.Worker)
	jobs, err := h.engine.SubmitAll(h.Context(), order(batch.ID))
	h.ok(err)
	return h.get(batch.ID), jobs[0]
}

// What an admin tool does with a job is an event of an operator in its history.
func TestFollowOperator(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	p := h.program
	for _, one := range []struct {
		what string
		do   func() error
		want lifecycle.State
		by   lifecycle.Actor
	}{
		{"hold", func() error { return p.Move(id, "Held", "") }, record.Held, lifecycle.Worker | lifecycle.Operator},
		{"release", func() error { return p.Move(id, "Pending", "") }, record.Pending, lifecycle.Operator},
		{"work", func() error { return p.Move(id, "Estimating", "Success") }, record.Estimating, lifecycle.Worker},
		{"fail", func() error { return p.Move(id, "Failed", "404") }, record.Failed, lifecycle.Worker},
		{"requeue", func() error { return p.Requeue(id, "Estimating") }, record.Estimating, lifecycle.Operator},
		{"two phases", func() error { return p.Move(id, "Downloading", "Success") }, record.Downloading,
			lifecycle.Worker},
		{"fail again", func() error { return p.Move(id, "Failed", "404") }, record.Failed, lifecycle.Worker},
		{"delete", func() error { return p.Move(id, "Deleted", "") }, record.Deleted, lifecycle.Operator},
	} {
		before := h.get(j.ID)
		h.ok(one.do())
		h.pass()
		after := h.get(j.ID)
		if after.State != one.want || after.Epoch <= before.Epoch {
			t.Fatalf("%s: it is %s, epoch %d after %d; %v", one.what, after.State, after.Epoch, before.Epoch,
				h.f.Findings())
		}
		history, err := h.store.History(t.Context(), j.ID, before.Seq, 0)
		h.ok(err)
		for _, e := range history {
			if e.Actor != merritt.Actor || e.By&one.by == 0 {
				t.Errorf("%s: %s by %s %s", one.what, e.Event, e.By, e.Actor)
			}
		}
	}
	if f := h.f.Findings(); len(f) > 0 {
		t.Errorf("findings: %v", f)
	}
	if r := h.get(j.ID).Retries; r != 1 {
		t.Errorf("%d retries", r)
	}
}

// A claim of ours whose job a program of Merritt changed meanwhile is refused: the worker's result is stale.
func TestStaleWorker(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	claimed := h.claim(record.Pending)
	if claimed.ID != j.ID {
		t.Fatalf("claimed %v", claimed)
	}
	if !slices.Contains(h.program.Names("/jobs/"+id), "lock") {
		t.Fatal("the claim has no lock in Merritt")
	}
	h.ok(h.program.Unlock("/jobs/" + id)) // the original daemons delete the lock of whatever client has it
	h.ok(h.program.Lock("/jobs/" + id))
	h.ok(h.program.Move(id, "Estimating", "Success"))
	at, err := h.engine.Life(record.JobKind).Next(claimed.Position, record.Begin, lifecycle.Worker)
	h.ok(err)
	result, err := h.store.Commit(t.Context(), job.Change{Job: j.ID, Epoch: claimed.Epoch, From: record.Pending,
		Event: record.Begin, To: at, By: lifecycle.Worker, Actor: "w"})
	if job.KindOf(err) != job.Stale && (err != nil || job.KindOf(result[0].Err) != job.Stale) {
		t.Errorf("the commit of a stale worker: %v, %v", result, err)
	}
	h.pass()
	if got := h.get(j.ID); got.State != record.Estimating || got.Claimed() {
		t.Errorf("it is %s, claimed by %q", got.State, got.Worker)
	}
	if busy := h.claims(record.Estimating); len(busy) > 0 {
		t.Error("a job that Merritt has locked was claimed")
	}
	if got := h.get(j.ID); got.Cause != merritt.LockedCause {
		t.Errorf("it waits for %q: %s", got.Cause, got.Message)
	}
}

// A priority that was changed in Merritt is that of the record, and the other way round.
func TestFollowPriority(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	h.ok(h.program.Priority(id, 7))
	h.pass()
	if got := h.get(j.ID); got.Priority != 7 {
		t.Errorf("priority %d", got.Priority)
	}
	_, err := h.engine.Operator().SetPriority(t.Context(), j.ID, 0, 12, "op", "first")
	h.ok(err)
	if got := h.program.Names("/jobs/states/pending"); !slices.Equal(got, []string{"12-" + id}) {
		t.Errorf("entries %v", got)
	}
	h.ok(h.program.Priority(id, 9))
	h.ok(h.program.Put("/jobs/states/pending/100-" + id)) // as the estimate of the original does
	h.pass()
	if got := h.get(j.ID); got.Priority != 9 {
		t.Errorf("priority %d, %v", got.Priority, h.f.Findings())
	}
}

// Holds are locks of Merritt and the other way round.
func TestHolds(t *testing.T) {
	h := newHarness(t)
	h.f.app, h.f.engine = h.app, h.engine
	ctx, p := t.Context(), h.program
	for scope, lock := range map[job.Scope]string{
		{Tag: ingest.QueueTag}: "/locks/queue/ingest", {Group: "maps"}: "/locks/collections/maps_content",
	} {
		h.ok(p.Put(lock))
		h.pass()
		if holds, _ := h.store.Holds(ctx); len(holds) != 1 || holds[0].Scope != scope || holds[0].Who != merritt.Actor {
			t.Fatalf("holds %v", holds)
		}
		h.ok(p.Drop(lock))
		h.pass()
		if holds, _ := h.store.Holds(ctx); len(holds) != 0 {
			t.Fatalf("holds %v", holds)
		}
		_, err := h.engine.Operator().Hold(ctx, scope, "op", "maintenance", h.engine.Clock().Now().Add(time.Hour))
		h.ok(err)
		if len(p.Names("/locks/queue"))+len(p.Names("/locks/collections")) > 0 {
			t.Error("a hold that ends by itself is a lock that no program removes")
		}
		_, err = h.engine.Operator().Release(ctx, scope, "op", "done")
		h.ok(err)
		_, err = h.engine.Operator().Hold(ctx, scope, "op", "maintenance", time.Time{})
		h.ok(err)
		if p.Text(lock) != "" || !slices.Contains(p.Names(filepath.Dir(lock)), filepath.Base(lock)) {
			t.Errorf("%s does not exist", lock)
		}
		h.pass()
		if holds, _ := h.store.Holds(ctx); len(holds) != 1 || holds[0].Who != "op" {
			t.Errorf("holds %v", holds)
		}
		_, err = h.engine.Operator().Release(ctx, scope, "op", "done")
		h.ok(err)
		if slices.Contains(p.Names(filepath.Dir(lock)), filepath.Base(lock)) {
			t.Errorf("%s exists", lock)
		}
	}
}

// A pause of Merritt is respected before the follower has read it.
func TestPauseAtOnce(t *testing.T) {
	h := newHarness(t)
	h.pending()
	h.ok(h.program.Put("/locks/queue/ingest"))
	if got := h.claims(record.Pending); len(got) > 0 {
		t.Error("claimed during a pause")
	}
	h.ok(h.program.Drop("/locks/queue/ingest"))
	if got := h.claims(record.Pending); len(got) != 1 {
		t.Error("not claimed after the pause")
	}
}

// A change that the lifecycle does not have is undone and in the audit log, once no worker has the job.
func TestUndone(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	id := h.node(j.ID)
	h.ok(h.program.Move(id, "Failed", "x"))
	h.pass()
	h.ok(h.program.Move(id, "Deleted", ""))
	h.pass()
	h.ok(h.program.Lock("/jobs/" + id))
	h.ok(h.program.Move(id, "Notify", "Success")) // the Ruby library checks nothing
	h.pass()
	if f := h.f.Findings(); len(f) != 1 || f[0].Node != id {
		t.Fatalf("findings %v", f)
	}
	h.ok(h.program.Unlock("/jobs/" + id))
	h.pass()
	if s := h.program.Status("/jobs/" + id); s != "Deleted" {
		t.Errorf("it is %s in Merritt", s)
	}
	h.pass()
	if f := h.f.Findings(); len(f) > 0 {
		t.Errorf("findings %v", f)
	}
	log, err := h.store.Audit(t.Context(), 0, -1)
	h.ok(err)
	if len(log) != 1 || log[0].Event != "restore" || log[0].Actor != merritt.Actor {
		t.Errorf("audit log %v", log)
	}
}

// Bad data of others is found and harms no other job.
func TestBadData(t *testing.T) {
	h := newHarness(t)
	_, j := h.pending()
	p := h.program
	for _, node := range []string{"/jobs/jid0000077776", "/jobs/states/pending/05-jid0000077776",
		"/jobs/states/pending/what", "/batches/bid0000099997", "/batches/whatever"} {
		h.ok(p.Put(node))
	}
	h.pass()
	if f := h.f.Findings(); len(f) != 4 {
		t.Errorf("findings %v", f)
	}
	if got := h.claim(record.Pending); got.ID != j.ID {
		t.Errorf("claimed %v", got)
	}
}

// The warnings name how many findings there are, and the sentences are all of them.
func TestFindingsAreListed(t *testing.T) {
	h := newHarness(t)
	for i := range mostWarnings + 2 {
		h.ok(h.program.Put(fmt.Sprintf("/jobs/states/pending/what%02d", i)))
	}
	h.pass()
	warnings, all := h.f.Warnings(), h.f.Sentences()
	if len(warnings) != mostWarnings+1 || len(all) != mostWarnings+2 || !slices.Equal(warnings[:10], all[:10]) {
		t.Fatalf("%q, %q", warnings, all)
	}
	if last := warnings[mostWarnings]; !strings.Contains(last, "2 more") ||
		!strings.HasSuffix(last, ": stagepost admin health -o json") {
		t.Error(last)
	}
	if text := strings.Join(append(warnings, all...), " "); strings.Contains(text, "zk check") {
		t.Error(text)
	}
}

// A batch that others created is recorded with its jobs. Without its payload, no worker of ours takes it.
func TestAdoptWithoutPayload(t *testing.T) {
	h := newHarness(t)
	p := h.program
	batch, err := p.Submit("bid-1", "maps_content", "two", "batchManifestFile")
	h.ok(err)
	h.pass()
	if got := h.claims(record.Pending); len(got) > 0 {
		t.Fatalf("claimed %v", got)
	}
	ids, err := p.Begin(batch, "bid-1", "maps_content", "one.txt", "two.txt")
	h.ok(err)
	h.pass()
	b, found, err := h.store.Node(t.Context(), batch)
	if err != nil || !found || h.get(b).State != record.Processing || h.get(b).Children.Open != 2 {
		t.Fatalf("%v %v: %+v; %v", err, found, h.get(b).Children, h.f.Findings())
	}
	if got := h.claims(record.Pending); len(got) > 0 {
		t.Fatalf("claimed %v", got)
	}
	for _, id := range ids {
		got, err := p.Acquire("Pending")
		if err != nil || got != id {
			t.Fatalf("Merritt acquired %q, %v", got, err)
		}
		h.ok(p.Finish(id))
		h.pass()
	}
	if got := h.get(b); got.Children.OK != 2 {
		t.Errorf("%+v; %v", got.Children, h.f.Findings())
	}
	h.ok(p.Batch(batch, "Completed", "Success"))
	h.pass()
	if got := h.get(b); got.State != record.Completed {
		t.Errorf("it is %s; %v", got.State, h.f.Findings())
	}
	if text := p.Text("/jobs/" + ids[0] + "/configuration"); !strings.Contains(text, `"theirs":1`) {
		t.Errorf("a key of others is lost: %s", text)
	}
}

// TestTakeTurns has a batch of Merritt and one of Stagepost, of whose jobs both sides finish some.
func TestTakeTurns(t *testing.T) {
	h := newHarness(t)
	p := h.program
	for _, file := range []string{"one.txt", "two.txt", "three.txt", "four.txt"} {
		dir := filepath.Join(h.queue, "bid-1", "job-"+file)
		h.ok(os.MkdirAll(dir, 0o700))
		h.ok(os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600))
	}
	batch, err := p.Submit("bid-1", "maps_content", "missing", "batchManifestFile")
	h.ok(err)
	ids, err := p.Begin(batch, "bid-1", "maps_content", "one.txt", "two.txt", "three.txt", "four.txt")
	h.ok(err)
	h.ok(p.Lock("/jobs/" + ids[0])) // before the engine runs, so that each side has two
	h.ok(p.Lock("/jobs/" + ids[2]))
	h.run()
	h.ok(p.Finish(ids[0]))
	h.ok(p.Finish(ids[2]))
	var b job.ID
	for found := false; !found; {
		passed := h.f.Passed()
		b, found, err = h.store.Node(t.Context(), batch)
		h.ok(err)
		if !found {
			<-passed
		}
	}
	h.await(b, func(j *job.Job) bool { return j.Children.OK == 4 })
	for i, id := range ids {
		if s := p.Status("/jobs/" + id); s != "Completed" {
			t.Errorf("%s is %s", id, s)
		}
		one, _, err := h.store.Node(t.Context(), id)
		h.ok(err)
		history, err := h.store.History(t.Context(), one, 0, 0)
		h.ok(err)
		theirs := history[len(history)-1].Actor == merritt.Actor
		if theirs != (i%2 == 0) {
			t.Errorf("%s was finished by %s", id, history[len(history)-1].Actor)
		}
	}
}

func (h *harness) claims(s lifecycle.State) []job.Job {
	h.Helper()
	return h.claimsOf(record.JobKind, s)
}

func (h *harness) claimsOf(k job.Kind, s lifecycle.State) []job.Job {
	h.Helper()
	jobs, err := h.store.Claim(h.Context(), job.Claim{Worker: "w", N: 10, Lease: guard, Now: h.engine.Clock().Now(),
		From: []job.KindState{{Kind: k, State: s}}})
	h.ok(err)
	return jobs
}

func (h *harness) claim(s lifecycle.State) job.Job {
	h.Helper()
	jobs := h.claims(s)
	if len(jobs) != 1 {
		h.Fatalf("claimed %v", jobs)
	}
	return jobs[0]
}

// order asks for a job of a batch whose payload is that of the batch.
func order(batch job.ID) engine.Order {
	priority := 5
	return engine.Order{Kind: record.JobKind, Parent: batch, Group: "maps", Tags: []string{ingest.QueueTag},
		Priority: &priority,
		Spec:     record.JobSpec{Type: ingest.TypeFile, Profile: "maps_content", Filename: "a.txt", Size: 5}}
}
