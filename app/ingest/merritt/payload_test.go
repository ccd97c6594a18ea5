package merritt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

// payload writes the payload of a batch of Merritt.
func (h *harness) payload(names ...string) {
	h.Helper()
	at := filepath.Join(append([]string{h.queue}, names...)...)
	h.ok(os.MkdirAll(filepath.Dir(at), 0o700))
	h.ok(os.WriteFile(at, []byte("hello"), 0o600))
}

// pipe makes a named pipe in place of a payload.
func (h *harness) pipe(names ...string) {
	h.Helper()
	at := filepath.Join(append([]string{h.queue}, names...)...)
	h.ok(os.MkdirAll(filepath.Dir(at), 0o700))
	h.ok(syscall.Mkfifo(at, 0o600))
}

// finding returns the text of the only finding, which is about a node.
func (h *harness) finding(node string) string {
	h.Helper()
	all := h.f.Findings()
	if len(all) != 1 || all[0].Node != node {
		h.Fatalf("findings %v", all)
	}
	return all[0].Text
}

// A batch of Merritt whose payload comes later has a record and is finished here from then on.
func TestPayloadComesLater(t *testing.T) {
	h := newHarness(t)
	batch, err := h.program.Submit("bid-1", "maps_content", "a.txt", "file")
	h.ok(err)
	h.pass()
	if _, found, err := h.store.Node(t.Context(), batch); err != nil || found {
		t.Fatalf("it has a record: %v", err)
	}
	if text := h.finding(batch); !strings.Contains(text, "bid-1/a.txt") || !strings.Contains(text, h.queue) {
		t.Error(text)
	}
	h.payload("bid-1", "a.txt")
	h.run()
	if b := h.ended(h.record(batch)); b.State != record.Completed {
		t.Errorf("it is %s: %s", b.State, b.Message)
	}
	if s := h.program.Status("/batches/" + batch); s != "Completed" {
		t.Errorf("it is %s in Merritt", s)
	}
}

// A batch that was held in Merritt when its record was made is finished here after its release.
func TestHeldBatchHasItsPayload(t *testing.T) {
	h := newHarness(t)
	h.payload("bid-1", "a.txt")
	batch, err := h.program.Submit("bid-1", "maps_content", "a.txt", "file")
	h.ok(err)
	h.ok(h.program.Batch(batch, "Held", ""))
	h.pass()
	id := h.record(batch)
	if b := h.get(id); b.State != record.Held {
		t.Fatalf("it is %s; %v", b.State, h.f.Findings())
	}
	h.ok(h.program.Batch(batch, "Pending", ""))
	h.run()
	if b := h.ended(id); b.State != record.Completed {
		t.Errorf("it is %s: %s", b.State, b.Message)
	}
}

// The payload of a job is searched for as long as its nodes are new. After that Merritt's programs have the job.
func TestPayloadOfJobComesLater(t *testing.T) {
	h := newHarness(t)
	h.f.o.Settle = time.Hour
	batch, err := h.program.Submit("bid-1", "maps_content", "two", "batchManifestFile")
	h.ok(err)
	ids, err := h.program.Begin(batch, "bid-1", "maps_content", "one.txt", "two.txt")
	h.ok(err)
	h.payload("bid-1", "job-one.txt", "one.txt")
	h.pass()
	if text := h.finding(ids[1]); !strings.Contains(text, "bid-1/job-two.txt/two.txt") {
		t.Error(text)
	}
	h.f.o.Settle = time.Nanosecond
	h.pass()
	if got := h.claim(record.Pending); got.Key != merritt.KeyOf(ids[0]) {
		t.Errorf("claimed %s", got.Key)
	}
	h.record(ids[1])
}

// A named pipe in place of a payload is a finding, and the batches after it are followed.
func TestPayloadIsPipe(t *testing.T) {
	h := newHarness(t)
	h.pipe("bid-1", "a.txt")
	first, err := h.program.Submit("bid-1", "maps_content", "a.txt", "file")
	h.ok(err)
	h.payload("bid-2", "a.txt")
	second, err := h.program.Submit("bid-2", "maps_content", "a.txt", "file")
	h.ok(err)
	h.pass()
	if text := h.finding(first); !strings.Contains(text, "no regular file") {
		t.Error(text)
	}
	h.record(second)
}

// finished makes a batch of Merritt whose jobs Stagepost finishes.
func (h *harness) finished(files ...string) (batch string, id job.ID) {
	h.Helper()
	for _, file := range files {
		h.payload("bid-1", "job-"+file, file)
	}
	batch, err := h.program.Submit("bid-1", "maps_content", "two", "batchManifestFile")
	h.ok(err)
	_, err = h.program.Begin(batch, "bid-1", "maps_content", files...)
	h.ok(err)
	h.run()
	id = h.record(batch)
	h.await(id, func(j *job.Job) bool { return j.Children.OK == len(files) })
	return batch, id
}

// The report of a batch that Merritt's batch daemon began is written here when its jobs have ended.
func TestReportOfMerritt(t *testing.T) {
	h := newHarness(t)
	batch, id := h.finished("one.txt", "two.txt")
	if b := h.ended(id); b.State != record.Completed {
		t.Errorf("it is %s: %s", b.State, b.Message)
	}
	if s := h.program.Status("/batches/" + batch); s != "Completed" {
		t.Errorf("it is %s in Merritt", s)
	}
}

// Without a directory of payloads, and while a report daemon of Merritt has the batch, the report is Merritt's.
func TestReportIsLeftToMerritt(t *testing.T) {
	for _, locked := range []bool{false, true} {
		t.Run(fmt.Sprintf("locked %t", locked), func(t *testing.T) {
			h := newHarness(t)
			batch, err := h.program.Submit("bid-1", "maps_content", "two", "batchManifestFile")
			h.ok(err)
			ids, err := h.program.Begin(batch, "bid-1", "maps_content", "one.txt")
			h.ok(err)
			h.pass()
			got, err := h.program.Acquire("Pending")
			h.ok(errors.Join(err, h.program.Finish(got)))
			if got != ids[0] {
				t.Fatalf("acquired %s", got)
			}
			if locked {
				h.ok(h.program.Lock("/batches/" + batch))
			} else {
				h.f.o.Queue = ""
			}
			h.pass()
			b := h.record(batch)
			for range 5 {
				h.pass()
			}
			if got := h.claimsOf(record.BatchKind, record.Reporting); len(got) > 0 {
				t.Errorf("claimed %v", got)
			}
			if got := h.get(b); got.State != record.Reporting {
				t.Errorf("it is %s", got.State)
			}
		})
	}
}
