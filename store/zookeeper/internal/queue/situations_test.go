package queue_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/store/zookeeper/internal/layout"
	"github.com/stagepost/stagepost/store/zookeeper/internal/queue"
)

// status returns the data of the status of a job, and batchStatus that of a batch or access request.
func status(state, last string, retries, message string) string {
	if last != "null" {
		last = `"` + last + `"`
	}
	return `{"last_modified":"now","last_successful_status":` + last + `,"message":"` + message + `","retry_count":` +
		retries + `,"status":"` + state + `"}`
}

func batchStatus(state, message string) string {
	return `{"last_modified":"now","message":"` + message + `","status":"` + state + `"}`
}

// batchNodes returns the lines of a batch with the lines of its states.
func batchNodes(state, message string, more ...string) []string {
	return append([]string{"/batch-uuids/uuid bid0", "/batches/bid0/status " + batchStatus(state, message),
		"/batches/bid0/submission ..."}, more...)
}

// jobNodes returns the lines of a job and of its batch in Processing.
func jobNodes(entry, dir, data string, more ...string) []string {
	lines := batchNodes("Processing", "",
		"/batches/bid0/states/"+dir+"/jid0", "/jobs/jid0/bid bid0", "/jobs/jid0/configuration ...",
		`/jobs/jid0/identifiers {"local_id":[],"primary_id":""}`,
		"/jobs/jid0/priority "+strings.TrimPrefix(entry[strings.
			LastIndex(entry, "/")+1:][:2], "0"), "/jobs/jid0/space_needed 0", "/jobs/jid0/status "+data,
		"/jobs/states/"+entry)
	return append(lines, more...)
}

// situation is an input, what is done, and the tree after it.
type situation struct {
	name string
	do   func(h *harness)
	want []string
}

func job(do func(h *harness, id layout.JobID)) func(h *harness) {
	return func(h *harness) {
		_, ids := h.batch(5)
		do(h, ids[0])
	}
}

// at drives a job to a state first.
func at(state layout.Status, do func(h *harness, id layout.JobID)) func(h *harness) {
	return job(func(h *harness, id layout.JobID) { h.drive(id, state); do(h, id) })
}

func failed(state layout.Status, do func(h *harness, id layout.JobID)) func(h *harness) {
	return at(state, func(h *harness, id layout.JobID) {
		need[*queue.Job](h)(h.q.FailJob(h.Context(), h.acquire(state), "broken"))
		do(h, id)
	})
}

func nothing(*harness, layout.JobID) {}

func requeue(h *harness, id layout.JobID) { need[*queue.Job](h)(h.q.RequeueJob(h.Context(), id)) }

// batchSituations are those of batches.
var batchSituations = []situation{
	{"batch created", func(h *harness) {
		need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
	}, batchNodes("Pending", "")},
	{"batch acquired", func(h *harness) {
		need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
		got[queue.Batch](h)(h.q.AcquireBatch(h.Context()))
	}, batchNodes("Processing", "", "/batches/bid0/lock", "/batches/bid0/states")},
	{"batch held", func(h *harness) {
		b := need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
		need[*queue.Batch](h)(h.q.HoldBatch(h.Context(), b.ID))
	}, batchNodes("Held", "", "/batches/bid0/states/batch-held")},
	{"batch held and released", func(h *harness) {
		b := need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
		need[*queue.Batch](h)(h.q.HoldBatch(h.Context(), b.ID))
		need[*queue.Batch](h)(h.q.ReleaseHeldBatch(h.Context(), b.ID))
	}, batchNodes("Pending", "")},
	{"batch held and deleted", func(h *harness) {
		b := need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
		need[*queue.Batch](h)(h.q.HoldBatch(h.Context(), b.ID))
		need[*queue.Batch](h)(h.q.DeleteBatch(h.Context(), b.ID))
	}, batchNodes("Deleted", "", "/batches/bid0/states/batch-processing")},
	{"batch failed without jobs", failBatch, batchNodes("Failed", "no entries",
		"/batches/bid0/states/batch-processing")},
	{"batch updated", func(h *harness) {
		failBatch(h)
		need[*queue.Batch](h)(h.q.UpdateBatch(h.Context(), h.only()))
	}, batchNodes("UpdateReporting", "", "/batches/bid0/states/batch-processing")},
	{"batch updated and completed", func(h *harness) {
		failBatch(h)
		need[*queue.Batch](h)(h.q.UpdateBatch(h.Context(), h.only()))
		if b, _, err := h.q.AcquireForUpdate(h.Context()); b != nil || err != nil {
			h.Errorf("acquired at once, although the number of jobs was not recorded: %v, %v", b, err)
		}
		need[*queue.Batch](h)(h.q.FinishBatch(h.Context(), got[queue.Batch](h)(h.q.AcquireForUpdate(h.Context()))))
	}, batchNodes("Completed", "Success", "/batches/bid0/states/batch-processing")},
	{"batch failed and deleted", func(h *harness) {
		failBatch(h)
		need[*queue.Batch](h)(h.q.DeleteBatch(h.Context(), h.only()))
	}, batchNodes("Deleted", "", "/batches/bid0/states/batch-processing")},
	{"batch cleaned up", func(h *harness) {
		failBatch(h)
		need[*queue.Batch](h)(h.q.DeleteBatch(h.Context(), h.only()))
		h.cleanup(1)
	}, nil},
	{"batch restarted", func(h *harness) {
		need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
		b := got[queue.Batch](h)(h.q.AcquireBatch(h.Context()))
		h.ok(h.q.ReleaseBatch(h.Context(), b))
		need[*queue.Batch](h)(h.q.RestartBatch(h.Context(), b.ID))
	}, batchNodes("Pending", "")},
}

func failBatch(h *harness) {
	need[*queue.Batch](h)(h.q.CreateBatch(h.Context(), submission("bid-1000000")))
	need[*queue.Batch](h)(h.q.FailBatch(h.Context(), got[queue.Batch](h)(h.q.AcquireBatch(h.Context())), "no entries"))
}

// only returns the only batch.
func (h *harness) only() layout.BatchID {
	h.Helper()
	ids, bad, err := h.q.BatchIDs(h.Context())
	if err != nil || len(bad) > 0 || len(ids) != 1 {
		h.Fatal(ids, bad, err)
	}
	return ids[0]
}

func (h *harness) cleanup(n int) {
	h.Helper()
	removed, bad, err := h.q.Cleanup(h.Context())
	if removed != n || len(bad) > 0 || err != nil {
		h.Errorf("removed %d of %d, %v, %v", removed, n, bad, err)
	}
}

// jobSituations are those of jobs, and of the batches that they end.
var jobSituations = []situation{
	{"job created", job(nothing), jobNodes("pending/05-jid0", "batch-processing", status("Pending", "null", "0", ""))},
	{"job acquired", job(func(h *harness, _ layout.JobID) { h.acquire(layout.Pending) }),
		jobNodes("pending/05-jid0", "batch-processing", status("Pending", "null", "0", ""), "/jobs/jid0/lock")},
	{"job acquired and released", job(func(h *harness, _ layout.JobID) {
		h.ok(h.q.ReleaseJob(h.Context(), h.acquire(layout.Pending)))
	}), jobNodes("pending/05-jid0", "batch-processing", status("Pending", "null", "0", ""))},
	{"job held", job(func(h *harness, id layout.JobID) {
		need[*queue.Job](h)(h.q.HoldJob(h.Context(), id))
	}), jobNodes("held/05-jid0", "batch-processing", status("Held", "null", "0", ""))},
	{"job held by its collection", job(func(h *harness, _ layout.JobID) {
		h.ok(h.q.LockCollection(h.Context(), "maps_content"))
		if j, bad, err := h.q.AcquireJob(h.Context(), layout.Pending); j != nil || len(bad) > 0 || err != nil {
			h.Errorf("acquired %v, %v, %v", j, bad, err)
		}
	}), jobNodes("held/05-jid0", "batch-processing", status("Held", "null", "0", ""),
		"/locks/collections/maps_content")},
	{"job held and released", job(func(h *harness, id layout.JobID) {
		need[*queue.Job](h)(h.q.HoldJob(h.Context(), id))
		need[*queue.Job](h)(h.q.ReleaseHeldJob(h.Context(), id))
	}), jobNodes("pending/05-jid0", "batch-processing", status("Pending", "null", "0", ""))},
	{"job held and deleted", job(func(h *harness, id layout.JobID) {
		need[*queue.Job](h)(h.q.HoldJob(h.Context(), id))
		need[*queue.Job](h)(h.q.DeleteJob(h.Context(), id))
	}), jobNodes("deleted/05-jid0", "batch-deleted", status("Deleted", "null", "0", ""),
		"/batches/bid0/states/batch-processing")},
	{"job estimating", at(layout.Estimating, nothing), jobNodes("estimating/05-jid0", "batch-processing",
		status("Estimating", "Pending", "0", "Success"))},
	{"job provisioning", at(layout.Provisioning, nothing), jobNodes("provisioning/05-jid0", "batch-processing",
		status("Provisioning", "Estimating", "0", "Success"))},
	{"job downloading", at(layout.Downloading, nothing), jobNodes("downloading/05-jid0", "batch-processing",
		status("Downloading", "Provisioning", "0", "Success"))},
	{"job processing", at(layout.Processing, nothing), jobNodes("processing/05-jid0", "batch-processing",
		status("Processing", "Downloading", "0", "Success"))},
	{"job storing", at(layout.Storing, nothing), jobNodes("storing/05-jid0", "batch-processing",
		status("Storing", "Processing", "0", "Success"))},
	{"job recording", at(layout.Recording, nothing), jobNodes("recording/05-jid0", "batch-processing",
		status("Recording", "Storing", "0", "Success"))},
	{"job notify", at(layout.Notify, nothing), jobNodes("notify/05-jid0", "batch-processing",
		status("Notify", "Recording", "0", "Success"))},
	{"job completed", at(layout.Completed, nothing), jobNodes("completed/05-jid0", "batch-completed",
		status("Completed", "Notify", "0", "Success"), "/batches/bid0/states/batch-processing")},
	{"job failed in Pending and requeued", failed(layout.Pending, requeue), jobNodes("estimating/05-jid0",
		"batch-processing", status("Estimating", "null", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Estimating", failed(layout.Estimating, nothing), jobNodes("failed/05-jid0", "batch-failed",
		status("Failed", "Pending", "0", "broken"), "/batches/bid0/states/batch-processing")},
	{"job failed in Estimating and requeued", failed(layout.Estimating, requeue), jobNodes("estimating/05-jid0",
		"batch-processing", status("Estimating", "Pending", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Provisioning and requeued", failed(layout.Provisioning, requeue), jobNodes("provisioning/05-jid0",
		"batch-processing", status("Provisioning", "Estimating", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Downloading and requeued", failed(layout.Downloading, requeue), jobNodes("downloading/05-jid0",
		"batch-processing", status("Downloading", "Provisioning", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Processing and requeued", failed(layout.Processing, requeue), jobNodes("processing/05-jid0",
		"batch-processing", status("Processing", "Downloading", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Storing and requeued", failed(layout.Storing, requeue), jobNodes("storing/05-jid0",
		"batch-processing", status("Storing", "Processing", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Recording and requeued", failed(layout.Recording, requeue), jobNodes("recording/05-jid0",
		"batch-processing", status("Recording", "Storing", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed in Notify and requeued", failed(layout.Notify, requeue), jobNodes("notify/05-jid0",
		"batch-processing", status("Notify", "Recording", "1", ""), "/batches/bid0/states/batch-failed")},
	{"job failed and deleted", failed(layout.Estimating, func(h *harness, id layout.JobID) {
		need[*queue.Job](h)(h.q.DeleteJob(h.Context(), id))
	}), jobNodes("deleted/05-jid0", "batch-deleted", status("Deleted", "Pending", "0", ""),
		"/batches/bid0/states/batch-processing", "/batches/bid0/states/batch-failed")},
	{"job purged", at(layout.Completed, func(h *harness, id layout.JobID) {
		h.ok(h.q.PurgeJob(h.Context(), id))
	}), batchNodes("Processing", "", "/batches/bid0/states/batch-processing", "/batches/bid0/states/batch-completed")},
	{"job stopped while it is worked on", at(layout.Storing, func(h *harness, id layout.JobID) {
		h.acquire(layout.Storing)
		need[*queue.Job](h)(h.q.StopJob(h.Context(), id, "stopped"))
	}), jobNodes("failed/05-jid0", "batch-failed", status("Failed", "Processing", "0", "stopped"),
		"/batches/bid0/states/batch-processing")},
	{"job with another priority", job(func(h *harness, id layout.JobID) {
		h.ok(h.q.SetPriority(h.Context(), id, 42))
	}), jobNodes("pending/42-jid0", "batch-processing", status("Pending", "null", "0", ""))},
	{"job with a priority that is too high", job(func(h *harness, id layout.JobID) {
		h.ok(h.q.SetPriority(h.Context(), id, 142))
	}), jobNodes("pending/99-jid0", "batch-processing", status("Pending", "null", "0", ""))},
}

// accessSituations are those of access requests.
var accessSituations = []situation{
	{"access created", func(h *harness) { access(h) }, accessNodes(201, "Pending", "")},
	{"access acquired", func(h *harness) {
		access(h)
		got[queue.Request](h)(h.q.AcquireRequest(h.Context(),
			layout.Small))
	},
		accessNodes(201, "Processing", "", "/access/small/qid0/lock")},
	{"access completed", func(h *harness) { finishAccess(h, access(h)) }, accessNodes(200, "Completed", "Success")},
	{"access failed", func(h *harness) { failAccess(h, access(h)) }, accessNodes(500, "Failed", "broken")},
	{"access failed and requeued", func(h *harness) {
		need[*queue.Request](h)(h.q.RequeueRequest(h.Context(), layout.Small, failAccess(h, access(h))))
	}, accessNodes(500, "Pending", "")},
	{"access failed and deleted", func(h *harness) {
		need[*queue.Request](h)(h.q.DeleteRequest(h.Context(), layout.Small, failAccess(h, access(h))))
	}, accessNodes(500, "Deleted", "")},
	{"access completed and deleted", func(h *harness) {
		need[*queue.Request](h)(h.q.DeleteRequest(h.Context(), layout.Small, finishAccess(h, access(h))))
	}, accessNodes(200, "Deleted", "")},
	{"access cleaned up", func(h *harness) {
		finishAccess(h, access(h))
		if n, bad, err := h.q.CleanupAccess(h.Context(), layout.Small); n != 1 || len(bad) > 0 || err != nil {
			h.Errorf("removed %d, %v, %v", n, bad, err)
		}
	}, nil},
}

func access(h *harness) layout.AccessID {
	r := need[*queue.Request](h)(h.q.CreateRequest(h.Context(), layout.Small, layout.Token{Status: 201, Token: "t",
		Bytes: 7, DeliveryNode: 7001}))
	return r.ID
}

func finishAccess(h *harness, id layout.AccessID) layout.AccessID {
	r := got[queue.Request](h)(h.q.AcquireRequest(h.Context(), layout.Small))
	r.Token.Status = 200
	need[*queue.Request](h)(h.q.FinishRequest(h.Context(), r, r.Token))
	return id
}

func failAccess(h *harness, id layout.AccessID) layout.AccessID {
	r := got[queue.Request](h)(h.q.AcquireRequest(h.Context(), layout.Small))
	r.Token.Status = 500
	need[*queue.Request](h)(h.q.FailRequest(h.Context(), r, "broken", r.Token))
	return id
}

func accessNodes(code int, state, message string, more ...string) []string {
	return append([]string{"/access/small/qid0/status " + batchStatus(state, message),
		`/access/small/qid0/token {"cloud-content-byte":7,"delivery-node":7001,"message":"","status":` +
			string(layout.FormatInt(int64(code))) + `,"token":"t"}`}, more...)
}

// TestSituations compares the tree after each operation with the one that the layout has for it.
func TestSituations(t *testing.T) {
	for _, all := range [][]situation{batchSituations, jobSituations, accessSituations} {
		for _, s := range all {
			t.Run(s.name, func(t *testing.T) {
				h := newHarness(t)
				s.do(h)
				slices.Sort(s.want)
				if diff := cmp.Diff(strings.Join(s.want, "\n"), h.tree()); diff != "" {
					t.Errorf("the tree differs (-want +got):\n%s", diff)
				}
				h.sound("7")
			})
		}
	}
}

// TestSettled drives the jobs of a batch to their ends and reports it.
func TestSettled(t *testing.T) {
	for _, one := range []struct {
		name         string
		fail         bool
		want, reason string
	}{{"completed", false, "Completed", "Success"}, {"failed", true, "Failed", "Batch failure"}} {
		t.Run(one.name, func(t *testing.T) {
			h := newHarness(t)
			_, ids := h.batch(5, 6)
			h.none()
			h.drive(ids[0], layout.Completed)
			h.none()
			h.drive(ids[1], layout.Notify)
			h.none()
			j := h.acquire(layout.Notify)
			if one.fail {
				need[*queue.Job](h)(h.q.FailJob(t.Context(), j, "broken"))
			} else {
				need[*queue.Job](h)(h.q.SucceedJob(t.Context(), j, queue.Results{}))
			}
			b := got[queue.Batch](h)(h.q.AcquireForReporting(t.Context()))
			if b.Status.Status != layout.Reporting {
				t.Errorf("acquired in %s", b.Status.Status)
			}
			h.none() // it is locked
			b = need[*queue.Batch](h)(h.q.FinishBatch(t.Context(), b))
			if s := b.Status; string(s.Status) != one.want || s.Message != one.reason {
				t.Errorf("finished as %s, %q", s.Status, s.Message)
			}
			h.none()
			h.sound()
			if one.fail {
				need[*queue.Batch](h)(h.q.DeleteBatch(t.Context(), b.ID))
			}
			h.cleanup(1)
			if got := h.tree(); got != "" {
				t.Errorf("after the cleanup:\n%s", got)
			}
		})
	}
}

// none checks that no batch can be acquired for reporting.
func (h *harness) none() {
	h.Helper()
	if b, bad, err := h.q.AcquireForReporting(h.Context()); b != nil || len(bad) > 0 || err != nil {
		h.Fatalf("acquired %+v, %v, %v", b, bad, err)
	}
}
