package merritt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/access"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

// situation is what is done to records, and the nodes that Merritt's programs find then.
type situation struct {
	name string
	do   func(h *harness)
	want []string
}

// claimAny claims the next record of a kind in a state.
func (h *harness) claimAny(k job.Kind, s lifecycle.State) job.Job {
	h.Helper()
	jobs, err := h.store.Claim(h.Context(), job.Claim{Worker: "w", N: 1, Lease: guard, Now: h.engine.Clock().Now(),
		From: []job.KindState{{Kind: k, State: s}}})
	h.ok(err)
	if len(jobs) != 1 {
		h.Fatalf("claimed %v in %s", jobs, s)
	}
	return jobs[0]
}

// end ends the work on a claimed record by its success, or by its failure "broken". What the work found out is the data
// of the record, if it is given.
func (h *harness) end(j *job.Job, class lifecycle.Class, data ...byte) {
	h.Helper()
	life := h.engine.Life(j.Kind)
	e, found := life.Choose(j.Position, class, lifecycle.Worker)
	if !found {
		h.Fatalf("%s has no event of class %v", j.State, class)
	}
	to, err := life.Next(j.Position, e, lifecycle.Worker)
	h.ok(err)
	c := job.Change{Job: j.ID, Epoch: j.Epoch, From: j.State, Event: e, To: to, Ended: life.Ended(to.State),
		By: lifecycle.Worker, Actor: "w", At: h.engine.Clock().Now()}
	if class == lifecycle.Fail {
		broken := "broken"
		c.Set.Message = &broken
	}
	if len(data) > 0 {
		c.Set.Data = data
	}
	results, err := h.store.Commit(h.Context(), c)
	h.ok(err)
	h.ok(results[0].Err)
}

// drive works on a record until it is in a state.
func (h *harness) drive(id job.ID, to lifecycle.State) {
	h.Helper()
	for j := h.get(id); j.State != to; j = h.get(id) {
		claimed := h.claimAny(j.Kind, j.State)
		h.end(&claimed, lifecycle.Pass)
	}
}

// fail works on a record without success.
func (h *harness) fail(id job.ID) {
	h.Helper()
	j := h.get(id)
	claimed := h.claimAny(j.Kind, j.State)
	h.end(&claimed, lifecycle.Fail)
}

// purge removes the record.
func (h *harness) purge(id job.ID) {
	h.Helper()
	j := h.get(id)
	results, err := h.store.Commit(h.Context(), job.Change{Job: id, Version: j.Version, Purge: true,
		By: lifecycle.Timer, At: h.engine.Clock().Now()})
	h.ok(err)
	h.ok(results[0].Err)
}

// onBatch submits a batch first, onJob drives a job to a state, onFailed fails it there, onRequest requests a package.
func onBatch(do func(h *harness, id job.ID)) func(*harness) {
	return func(h *harness) { do(h, h.submit("hello").ID) }
}

func onJob(at lifecycle.State, do func(h *harness, id job.ID)) func(*harness) {
	return func(h *harness) {
		_, j := h.pending()
		h.drive(j.ID, at)
		do(h, j.ID)
	}
}

func onFailed(at lifecycle.State, events ...lifecycle.Event) func(*harness) {
	return onJob(at, func(h *harness, id job.ID) {
		h.fail(id)
		byOperator(events...)(h, id)
	})
}

func onRequest(do func(h *harness, id job.ID)) func(*harness) {
	return func(h *harness) {
		j, err := h.engine.Submit(
			h.Context(),
			engine.Order{Kind: access.Kind, Tags: []string{access.SmallTag}, Bytes: 7,
				Spec: map[string]string{"ark": "ark:/99999/fk4a", "name": "a"}},
		)
		h.ok(err)
		do(h, j.ID)
	}
}

// onProcessed drives a job through Processing, after which its files are handed over.
func onProcessed(do func(h *harness, id job.ID)) func(*harness) {
	return onJob(record.Processing, func(h *harness, id job.ID) {
		j := h.claimAny(record.JobKind, record.Processing)
		h.end(&j, lifecycle.Pass, []byte(`{"identity":{"ark":"ark:/99999/fk4a"},"handed":{"manifest":"http://a/m",`+
			`"delete":"producer/b\n"}}`)...)
		do(h, id)
	})
}

// onTaken has Merritt's programs process a job, with which Stagepost continues.
func onTaken(do func(h *harness, id job.ID)) func(*harness) {
	return func(h *harness) {
		_, j := h.pending()
		id := h.node(j.ID)
		h.ok(h.program.Lock("/jobs/" + id))
		for _, state := range []string{"Estimating", "Provisioning", "Downloading", "Processing"} {
			h.ok(h.program.Move(id, state, "Success"))
		}
		h.ok(h.program.Hand(id, "http://a/m", "add/9/ark%3A%2F99999%2Ffk4a", "http://a/i"))
		h.ok(h.program.Move(id, "Storing", "Success"))
		h.ok(h.program.Unlock("/jobs/" + id))
		h.pass()
		do(h, j.ID)
	}
}

// taken are the lines of a job that Merritt's programs have processed.
func taken(lines []string) []string {
	return append(lines,
		`/jobs/jid0/store {"manifest_url":"http://a/m","mode":"add/9/ark%3A%2F99999%2Ffk4a","delete":"","theirs":1}`,
		`/jobs/jid0/inventory {"manifest_url":"http://a/i","mode":"","theirs":1}`)
}

// processed are the lines of a job whose files were handed over.
func processed(lines []string) []string {
	i := slices.Index(lines, `/jobs/jid0/identifiers {"local_id":[],"primary_id":""}`)
	lines[i] = `/jobs/jid0/identifiers {"local_id":[],"primary_id":"ark:/99999/fk4a"}`
	return append(lines,
		`/jobs/jid0/store {"delete":"producer/b\n","manifest_url":"http://a/m","mode":"add/9/ark%3A%2F99999%2Ffk4a"}`,
		`/jobs/jid0/inventory {"manifest_url":"http://storage.example:35121/manifest/9/ark%3A%2F99999%2Ffk4a","mode":""}`)
}

// byOperator does what an operator asks for.
func byOperator(events ...lifecycle.Event) func(*harness, job.ID) {
	return func(h *harness, id job.ID) {
		h.Helper()
		for _, e := range events {
			h.do(id, e, lifecycle.Operator)
		}
	}
}

func claim(h *harness, id job.ID) {
	h.Helper()
	j := h.get(id)
	h.claimAny(j.Kind, j.State)
}

func failure(h *harness, id job.ID) { h.Helper(); h.fail(id) }

func driven(to lifecycle.State, more ...func(*harness, job.ID)) func(*harness, job.ID) {
	return func(h *harness, id job.ID) {
		h.Helper()
		h.drive(id, to)
		for _, do := range more {
			do(h, id)
		}
	}
}

// batchLines returns the lines of a batch.
func batchLines(state, message string, more ...string) []string {
	return append([]string{"/batch-uuids/uuid bid0", "/batches/bid0/submission ...",
		`/batches/bid0/status {"last_modified":"now","message":"` + message + `","status":"` + state + `"}`}, more...)
}

// jobLines returns the lines of a job in its batch in Processing. The entry is "pending/05-jid0".
func jobLines(entry, dir, last string, retries int, message string, more ...string) []string {
	state, name, _ := strings.Cut(entry, "/")
	if last != "null" {
		last = `"` + last + `"`
	}
	status := fmt.Sprintf(
		`{"last_modified":"now","last_successful_status":%s,"message":"%s","retry_count":%d,"status":"%s"}`,
		last,
		message,
		retries,
		strings.ToUpper(state[:1])+state[1:],
	)
	return batchLines("Processing", "Success", append(
		more,
		"/batches/bid0/states/batch-"+dir+"/jid0",
		"/jobs/jid0/bid bid0",
		"/jobs/jid0/configuration ...",
		`/jobs/jid0/identifiers {"local_id":[],"primary_id":""}`,
		"/jobs/jid0/priority "+strings.TrimLeft(name[:2], "0"),
		"/jobs/jid0/space_needed 0",
		"/jobs/jid0/status "+status,
		"/jobs/states/"+entry,
	)...)
}

func accessLines(code int, token, state, message string, more ...string) []string {
	return append([]string{
		`/access/small/qid0/status {"last_modified":"now","message":"` + message + `","status":"` + state + `"}`,
		fmt.Sprintf(
			`/access/small/qid0/token {"cloud-content-byte":7,"delivery-node":0,"message":"%s","status":%d,"token":"acc"}`,
			token,
			code,
		)}, more...)
}

// Directories of references that had one remain.
const (
	wasProcessing = "/batches/bid0/states/batch-processing"
	wasFailed     = "/batches/bid0/states/batch-failed"
	wasCompleted  = "/batches/bid0/states/batch-completed"
)

const queued = "Request queued, use token to check status"

func situations() []situation {
	nothing := func(*harness, job.ID) {}
	all := []situation{
		{"batch created", onBatch(nothing), batchLines("Pending", "")},
		{"batch claimed", onBatch(claim), batchLines("Pending", "", "/batches/bid0/lock")},
		{"batch held", onBatch(byOperator(record.Hold)), batchLines("Held", "", "/batches/bid0/states/batch-held")},
		{"batch held and released", onBatch(byOperator(record.Hold, record.Release)), batchLines("Pending", "")},
		{"batch held and deleted", onBatch(byOperator(record.Hold, record.Delete)),
			batchLines("Deleted", "", wasProcessing)},
		{"batch cancelled", onBatch(byOperator(record.Cancel)), batchLines("Deleted", "", wasProcessing)},
		{"batch failed without jobs", onBatch(failure), batchLines("Failed", "broken", wasProcessing)},
		{"batch updated", onBatch(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Update, lifecycle.Operator)
		}), batchLines("UpdateReporting", "", wasProcessing)},
		{"batch updated and completed", onBatch(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Update, lifecycle.Operator)
			h.drive(id, record.Completed)
		}), batchLines("Completed", "Success", wasProcessing)},
		{"batch failed and deleted", onBatch(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Delete, lifecycle.Operator)
		}), batchLines("Deleted", "", wasProcessing)},
		{"batch purged", onBatch(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Delete, lifecycle.Operator)
			h.purge(id)
		}), nil},

		{"job created", onJob(record.Pending, nothing), jobLines("pending/05-jid0", "processing", "null", 0, "")},
		{"job claimed", onJob(record.Pending, claim),
			jobLines("pending/05-jid0", "processing", "null", 0, "", "/jobs/jid0/lock")},
		{
			"job held",
			onJob(record.Pending, byOperator(record.Hold)),
			jobLines("held/05-jid0", "processing", "null", 0, ""),
		},
		{"job held and released", onJob(record.Pending, byOperator(record.Hold, record.Release)),
			jobLines("pending/05-jid0", "processing", "null", 0, "")},
		{"job held and deleted", onJob(record.Pending, byOperator(record.Hold, record.Delete)),
			jobLines("deleted/05-jid0", "deleted", "null", 0, "", wasProcessing)},
		{"job completed", onJob(record.Completed, nothing),
			jobLines("completed/05-jid0", "completed", "Notify", 0, "Success", wasProcessing)},
		{"job failed and deleted", onFailed(record.Estimating, record.Delete),
			jobLines("deleted/05-jid0", "deleted", "Pending", 0, "", wasProcessing, wasFailed)},
		{"job purged", onJob(record.Completed, func(h *harness, id job.ID) {
			h.do(id, record.Delete, lifecycle.Operator)
			h.purge(id)
		}), batchLines("Processing", "Success", wasProcessing, wasCompleted,
			"/batches/bid0/states/batch-deleted")},
		{"job stopped while it is worked on", onJob(record.Storing, func(h *harness, id job.ID) {
			claim(h, id)
			h.do(id, record.Stop, lifecycle.Operator)
		}), jobLines("failed/05-jid0", "failed", "Processing", 0, "test", wasProcessing)},
		{"job with another priority", onJob(record.Pending, func(h *harness, id job.ID) {
			_, err := h.engine.Operator().SetPriority(h.Context(), id, 0, 42, "op", "test")
			h.ok(err)
		}), jobLines("pending/42-jid0", "processing", "null", 0, "")},

		{"job processed", onProcessed(nothing),
			processed(jobLines("storing/05-jid0", "processing", "Processing", 0, "Success"))},
		{"job processed and claimed", onProcessed(claim),
			processed(jobLines("storing/05-jid0", "processing", "Processing", 0, "Success", "/jobs/jid0/lock"))},
		{"job processed and failed", onProcessed(failure),
			processed(jobLines("failed/05-jid0", "failed", "Processing", 0, "broken", wasProcessing))},
		{"job processed, failed and retried", onProcessed(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Retry, lifecycle.Operator)
		}), processed(jobLines("storing/05-jid0", "processing", "Processing", 1, "", wasFailed))},
		{"job processed and stored", onProcessed(driven(record.Recording)),
			processed(jobLines("recording/05-jid0", "processing", "Storing", 0, "Success"))},
		{"job processed and completed", onProcessed(driven(record.Completed)),
			processed(jobLines("completed/05-jid0", "completed", "Notify", 0, "Success", wasProcessing))},
		{"job processed and purged", onProcessed(driven(record.Completed, byOperator(record.Delete),
			(*harness).purge)), batchLines("Processing", "Success", wasProcessing, wasCompleted,
			"/batches/bid0/states/batch-deleted")},

		{"job processed in Merritt and claimed", onTaken(claim),
			taken(jobLines("storing/05-jid0", "processing", "Processing", 0, "Success", "/jobs/jid0/lock"))},
		{"job processed in Merritt and stored", onTaken(driven(record.Recording)),
			taken(jobLines("recording/05-jid0", "processing", "Storing", 0, "Success"))},
		{"job processed in Merritt, stored and claimed", onTaken(driven(record.Recording, claim)),
			taken(jobLines("recording/05-jid0", "processing", "Storing", 0, "Success", "/jobs/jid0/lock"))},
		{"job processed in Merritt and failed", onTaken(failure),
			taken(jobLines("failed/05-jid0", "failed", "Processing", 0, "broken", wasProcessing))},
		{"job processed in Merritt, failed, retried and stored", onTaken(func(h *harness, id job.ID) {
			h.fail(id)
			h.do(id, record.Retry, lifecycle.Operator)
			h.drive(id, record.Recording)
		}), taken(jobLines("recording/05-jid0", "processing", "Storing", 1, "Success", wasFailed))},

		{"access requested", onRequest(nothing), accessLines(201, queued, "Pending", "")},
		{"access claimed", onRequest(claim), accessLines(201, queued, "Pending", "", "/access/small/qid0/lock")},
		{"access processed", onRequest(driven(record.Processing)), accessLines(201, queued, "Processing", "Success")},
		{"access completed", onRequest(driven(record.Completed)), accessLines(200, queued, "Completed", "Success")},
		{
			"access failed",
			onRequest(driven(record.Processing, failure)),
			accessLines(500, "broken", "Failed", "broken"),
		},
		{"access failed and requeued", onRequest(driven(record.Processing, failure, byOperator(record.Requeue))),
			accessLines(201, queued, "Pending", "")},
		{"access failed and retried", onRequest(driven(record.Processing, failure, byOperator(record.Retry))),
			accessLines(201, queued, "Processing", "")},
		{"access completed and deleted", onRequest(driven(record.Completed, byOperator(record.Delete))),
			accessLines(200, queued, "Deleted", "")},
		{"access failed and deleted", onRequest(driven(record.Processing, failure, byOperator(record.Delete))),
			accessLines(500, "broken", "Deleted", "")},
		{"access purged", onRequest(driven(record.Completed, byOperator(record.Delete), (*harness).purge)), nil},
	}
	last := "null"
	for _, s := range []lifecycle.State{record.Pending, record.Estimating, record.Provisioning, record.Downloading,
		record.Processing, record.Storing, record.Recording, record.Notify} {
		name := strings.ToLower(string(s))
		if s != record.Pending {
			all = append(all, situation{"job " + name, onJob(s, nothing),
				jobLines(name+"/05-jid0", "processing", last, 0, "Success")})
		}
		all = append(all, situation{"job failed in " + string(s), onFailed(s),
			jobLines("failed/05-jid0", "failed", last, 0, "broken", wasProcessing)},
			situation{"job failed in " + string(s) + " and retried", onFailed(s, record.Retry),
				jobLines(name+"/05-jid0", "processing", last, 1, "", wasFailed)})
		last = string(s)
	}
	return all
}

// TestSituations compares the nodes after each change of a record with those that Merritt's layout has for it, and the
// report of orphans is empty.
func TestSituations(t *testing.T) {
	for _, s := range situations() {
		t.Run(s.name, func(t *testing.T) {
			h := openHarness(t, true)
			s.do(h)
			slices.Sort(s.want)
			got := strings.Join(zktest.Normal(t, h.program.Conn), "\n")
			if diff := cmp.Diff(strings.Join(s.want, "\n"), got); diff != "" {
				t.Errorf("the nodes differ (-want +got):\n%s", diff)
			}
			h.sound()
		})
	}
}
