package merritt

import (
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

const (
	storageLock   = "/locks/storage/ark_99999_fk4a"
	inventoryLock = "/locks/inventory/ark_99999_fk4a"
)

// object submits an object with an identifier and returns its job, when there is one.
func (h *harness) object() job.Job {
	h.Helper()
	b, err := h.app.Submit(h.Context(), ingest.Submission{Profile: "maps_content", Submitter: "ann",
		Filename: "a.txt", PrimaryID: "ark:/99999/fk4a"}, strings.NewReader("hello"))
	h.ok(err)
	h.await(b.ID, func(j *job.Job) bool { return j.Children.Created() == 1 })
	page, err := h.store.List(h.Context(), job.Query{Parent: b.ID})
	h.ok(err)
	return page.Jobs[0]
}

// A job waits for the programs of Merritt that have locked its object, and they for it.
func TestObjectsLockedByMerritt(t *testing.T) {
	h := newHarness(t)
	h.ok(h.program.Put(storageLock))
	h.ok(h.program.Put(inventoryLock))
	h.run()
	waits := func(state string) func(*job.Job) bool {
		return func(j *job.Job) bool {
			return string(j.State) == state && j.Cause == merritt.LockedCause && !j.Claimed()
		}
	}
	j := h.object()
	h.await(j.ID, waits("Storing"))
	h.ok(h.program.Drop(storageLock))
	h.await(j.ID, waits("Recording"))
	if by := h.program.Text(storageLock); by != mark+string(j.ID) {
		t.Errorf("while the version is recorded, Merritt's lock has %q", by)
	}
	h.ok(h.program.Drop(inventoryLock))
	if j = h.ended(j.ID); j.State != record.Completed {
		t.Fatalf("it is %s: %s", j.State, j.Message)
	}
	for h.anyLock() {
		<-h.f.Passed()
	}
}

// anyLock reports whether an object is locked in Merritt.
func (h *harness) anyLock() bool {
	return len(h.program.Names("/locks/storage"))+len(h.program.Names("/locks/inventory")) > 0
}

// A lock that ended with a session is taken again, and one that a process before has left is released. Locks of Merritt
// remain.
func TestObjectLocksFollowInventory(t *testing.T) {
	h := newHarness(t)
	h.ok(h.program.Put(inventoryLock))
	h.run()
	j := h.object()
	h.await(j.ID, func(j *job.Job) bool { return j.State == record.Recording && j.Cause == merritt.LockedCause })
	h.ok(h.program.Drop(storageLock)) // as the operators of Merritt can
	for h.program.Text(storageLock) != mark+string(j.ID) {
		<-h.f.Passed()
	}
	marked := mark + "ing_01M8F6XQ5Y7YECV44BE53G1DN1"
	h.ok(h.program.Mark("/locks/storage/ark_99999_fk4b", marked))
	h.ok(h.program.Put("/locks/storage/ark_99999_fk4c"))
	gone := func() bool { return !slices.Contains(h.program.Names("/locks/storage"), "ark_99999_fk4b") }
	for !gone() {
		<-h.f.Passed()
	}
	if !slices.Contains(h.program.Names("/locks/storage"), "ark_99999_fk4c") {
		t.Error("a lock of Merritt was removed")
	}
	h.ok(h.program.Drop(inventoryLock))
	h.ended(j.ID)
}
