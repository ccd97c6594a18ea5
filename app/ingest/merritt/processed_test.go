package merritt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/zookeeper/merritt"
)

const (
	processedARK  = "ark:/99999/fk4theirs"
	processedMode = "add/9/ark%3A%2F99999%2Ffk4theirs"
	processedERC  = "erc:\nwho: Ann\nwhat: A map\nwhen: 1890\nwhere: " + processedARK + "\n"
)

// workingFiles are those that Merritt's Processing leaves.
func workingFiles() map[string]string {
	return map[string]string{"producer/one.txt": "first", "producer/maps/two.txt": "second",
		"system/mrt-erc.txt": processedERC, "system/mrt-ingest.txt": "ingest: theirs\n"}
}

// row is the row of a file in the manifest of Merritt's Processing.
func row(name, content string) string {
	sum := sha256.Sum256([]byte(content))
	return fmt.Sprintf("http://ingest.example/%s | sha256 | %s | %d | 2020-01-02T11:04:05+00:00 | %s | text/plain",
		name, hex.EncodeToString(sum[:]), len(content), name)
}

func rowsOf(files map[string]string) (rows []string) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		rows = append(rows, row(name, files[name]))
	}
	return rows
}

// leave makes the working directory of a job, as Merritt's Processing leaves it. Without rows it has no manifest.
func (h *harness) leave(name string, files map[string]string, rows ...string) {
	h.Helper()
	dir := filepath.Join(h.queue, "bid-1", name)
	if len(rows) > 0 {
		files = maps.Clone(files)
		files["system/mrt-manifest.txt"] = "#%checkm_0.7\n" +
			"#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-add-manifest\n" +
			"#%columns | nfo:fileUrl | nfo:hashAlgorithm | nfo:hashValue | nfo:fileSize | nfo:fileLastModified | " +
			"nfo:fileName | nie:mimeType\n" + strings.Join(rows, "\n") + "\n#%eof"
	}
	for file, content := range files {
		at := filepath.Join(dir, file)
		h.ok(os.MkdirAll(filepath.Dir(at), 0o700))
		h.ok(os.WriteFile(at, []byte(content), 0o600))
	}
}

// begin makes a batch of Merritt with jobs in Pending, one for each file. Merritt's programs have locked them.
func (h *harness) begin(files ...string) (batch string, ids []string) {
	h.Helper()
	batch, err := h.program.Submit("bid-1", "maps_content", "one", "batchManifestFile")
	h.ok(err)
	ids, err = h.program.Begin(batch, "bid-1", "maps_content", files...)
	h.ok(err)
	for _, id := range ids {
		h.ok(h.program.Lock("/jobs/" + id))
	}
	return batch, ids
}

// process has Merritt's daemons work on a job until it is processed, and unlock it.
func (h *harness) process(id, name, mode string) {
	h.Helper()
	for _, state := range []string{"Estimating", "Provisioning", "Downloading", "Processing"} {
		h.ok(h.program.Move(id, state, "Success"))
	}
	path := "/jobs/" + id + "/configuration"
	text := `{"title":"A map",` + strings.TrimPrefix(h.program.Text(path), "{")
	_, err := h.program.Conn.Set(path, []byte(text), -1)
	h.ok(err)
	h.ok(h.program.Hand(id, "http://ingest.example/ingestqueue/bid-1/"+name+"/system/mrt-manifest.txt", mode,
		"http://storage.example/manifest/9/x"))
	h.ok(h.program.Move(id, "Storing", "Success"))
	h.ok(h.program.Unlock("/jobs/" + id))
}

// record waits for the record of a node.
func (h *harness) record(node string) job.ID {
	h.Helper()
	for {
		passed := h.f.Passed()
		id, found, err := h.store.Node(h.Context(), node)
		h.ok(err)
		if found {
			return id
		}
		<-passed
	}
}

// left waits until a job is left to Merritt's programs in a state.
func (h *harness) left(node string, s lifecycle.State) job.Job {
	h.Helper()
	return h.await(h.record(node), func(j *job.Job) bool {
		return j.Ended || j.State == s && j.Cause == merritt.ElsewhereCause && !j.Claimed()
	})
}

// finishes has Merritt's programs finish a job from a state on.
func (h *harness) finishes(state string) {
	h.Helper()
	id := ""
	for id == "" { // Stagepost has it for a moment each time that it checks the directory
		var err error
		id, err = h.program.Acquire(state)
		h.ok(err)
	}
	for _, to := range []string{"Recording", "Notify", "Completed"} {
		if to != state {
			h.ok(h.program.Move(id, to, "Success"))
		}
	}
	h.ok(h.program.Unlock("/jobs/" + id))
}

// contents are the files of the newest version of an object, by path; the values are digests.
func (h *harness) contents(ark string) (versions int, files map[string]string) {
	h.Helper()
	all, err := h.app.Objects(h.Context(), ingest.ObjectQuery{ARK: ark})
	h.ok(err)
	files = map[string]string{}
	if len(all) == 0 {
		return 0, files
	}
	page, err := h.app.Files(h.Context(), ark, 0, "", 100)
	h.ok(err)
	for _, f := range page {
		files[f.Path] = f.SHA256
	}
	return len(all[0].Versions), files
}

// has checks that files of an object have a content.
func (h *harness) has(got, want map[string]string) {
	h.Helper()
	for name, content := range want {
		if sum := sha256.Sum256([]byte(content)); got[name] != hex.EncodeToString(sum[:]) {
			h.Errorf("%s has the digest %q, not that of %q", name, got[name], content)
		}
	}
}

// TestTakeOver: Merritt's programs process a job, and Stagepost stores it once, from the files that they left. The
// record exists before, or is made of the nodes of a job in Storing. The control is a job without its files: Merritt's
// storage stores it.
func TestTakeOver(t *testing.T) {
	for _, one := range []struct {
		name        string
		late, files bool
	}{{"followed", false, true}, {"adopted in Storing", true, true}, {"without files", false, false}} {
		t.Run(one.name, func(t *testing.T) {
			h := newHarness(t)
			_, ids := h.begin("one.txt")
			if one.files {
				h.leave("job-one.txt", workingFiles(), rowsOf(workingFiles())...)
			}
			if !one.late {
				h.run()
				h.record(ids[0])
			}
			h.process(ids[0], "job-one.txt", processedMode)
			if one.late {
				h.run()
			}
			if !one.files {
				if j := h.left(ids[0], record.Storing); j.Ended {
					t.Fatalf("it is %s: %s", j.State, j.Message)
				}
				h.finishes("Storing")
			}
			j := h.ended(h.record(ids[0]))
			if j.State != record.Completed || h.program.Status("/jobs/"+ids[0]) != "Completed" {
				t.Fatalf("it is %s: %s %s", j.State, j.Cause, j.Message)
			}
			ends := 0
			history, err := h.store.History(t.Context(), j.ID, 0, 0)
			h.ok(err)
			for _, e := range history {
				if e.To == record.Completed {
					ends++
				}
				stored := e.From == record.Storing && e.Event == record.Next
				if stored && (e.Actor == merritt.Actor) == one.files {
					t.Errorf("it was stored by %s", e.Actor)
				}
			}
			versions, files := h.contents(processedARK)
			if ends != 1 || versions != map[bool]int{true: 1, false: 0}[one.files] {
				t.Errorf("completed %d times, %d versions", ends, versions)
			}
			if one.files {
				h.has(files, workingFiles())
				if d, err := record.DataOf(&j); err != nil || d.Identity.Title != "A map" || !d.Taken {
					t.Errorf("%+v, %v", d.Identity, err)
				}
			}
			h.sound()
		})
	}
}

// TestTakeOverRefused: a file that is not the listed one fails the job, which a retry completes when the file was
// mended; nothing is stored before, and the object once.
func TestTakeOverRefused(t *testing.T) {
	h := newHarness(t)
	one, other := map[string]string{"producer/a": "a", "producer/b": "b"}, row("producer/b", "b")
	cases := []struct {
		name, cause string
		rows        []string
		link        bool
	}{
		{"digest", ingest.CauseBadDigest, []string{row("producer/a", "a"), row("producer/b", "c")}, false},
		{"size", ingest.CauseBadSize, []string{strings.Replace(other, " | 1 | ", " | 2 | ", 1)}, false},
		{"none", ingest.CauseBadDigest, []string{"http://a/b | | | 1 | | producer/b"}, false},
		{"missing", ingest.CauseMismatch, []string{row("producer/c", "c")}, false},
		{"outside", ingest.CauseMismatch, []string{row("../two/b", "b")}, false},
		{"elsewhere", ingest.CauseUnsafeName, []string{row("lists/b", "b")}, false},
		{"twice", ingest.CauseDuplicateName, []string{other, other}, false},
		{"link", ingest.CauseUnsafeName, []string{other}, true},
		{"broken", ingest.CauseMismatch, []string{strings.Replace(other, "sha256", "sha_256", 1)}, false},
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.name)
	}
	_, ids := h.begin(names...)
	for i, c := range cases {
		h.leave("job-"+c.name, one, c.rows...)
		if c.link {
			b := filepath.Join(h.queue, "bid-1", "job-"+c.name, "producer/b")
			h.ok(os.Remove(b))
			h.ok(os.Symlink("a", b))
		}
		h.process(ids[i], "job-"+c.name, fmt.Sprintf("add/9/ark%%3A%%2F99999%%2Ffk4%d", i))
	}
	h.run()
	for i, c := range cases {
		j := h.ended(h.record(ids[i]))
		if versions, _ := h.contents(fmt.Sprintf("ark:/99999/fk4%d", i)); j.Cause != c.cause || versions > 0 {
			t.Errorf("%s: %s, %q: %s; %d versions", c.name, j.State, j.Cause, j.Message, versions)
		}
	}
	h.leave("job-digest", map[string]string{"producer/b": "c"})
	id := h.record(ids[0])
	h.do(id, record.Retry, lifecycle.Operator)
	j := h.await(id, func(j *job.Job) bool { return j.Ended && j.Retries == 1 })
	versions, files := h.contents("ark:/99999/fk40")
	if j.State != record.Completed || versions != 1 {
		t.Errorf("it is %s: %s; %d versions", j.State, j.Message, versions)
	}
	h.has(files, map[string]string{"producer/a": "a", "producer/b": "c"})
}

// TestTakeOverPayload: the files that Merritt left are gone, and the payload is here: the job begins again with it,
// under the identifier that Merritt's Processing found.
func TestTakeOverPayload(t *testing.T) {
	h := newHarness(t)
	h.leave("job-one.txt", map[string]string{"one.txt": "payload"})
	_, ids := h.begin("one.txt")
	h.run()
	id := h.record(ids[0])
	h.ok(os.RemoveAll(filepath.Join(h.queue, "bid-1")))
	h.process(ids[0], "job-one.txt", processedMode)
	j := h.ended(id)
	versions, files := h.contents(processedARK)
	if j.State != record.Completed || versions != 1 {
		t.Errorf("it is %s: %s; %d versions", j.State, j.Message, versions)
	}
	h.has(files, map[string]string{"producer/one.txt": "payload"})
}

// TestTakeOverBegun: a job that Merritt's programs have begun is left to them, which is the control, until a person
// stops it and retries it: then it begins again here with its payload, and the object is stored once. `why` names both.
func TestTakeOverBegun(t *testing.T) {
	phases := []string{"Estimating", "Provisioning", "Downloading", "Processing"}
	for i, phase := range phases {
		t.Run(phase, func(t *testing.T) {
			h := newHarness(t)
			h.leave("job-one.txt", map[string]string{"one.txt": "payload"})
			_, ids := h.begin("one.txt")
			h.run()
			id := h.record(ids[0])
			for _, state := range phases[:i+1] {
				h.ok(h.program.Move(ids[0], state, "Success"))
			}
			h.ok(h.program.Unlock("/jobs/" + ids[0]))
			h.await(id, func(j *job.Job) bool { return string(j.State) == phase })
			w := h.why(id, merritt.ElsewhereCause)
			if !strings.Contains(w.Remedy, "stop it, and then retry it") || len(w.Remedies) == 0 ||
				w.Remedies[0].Command != "stagepost stop "+string(id) {
				t.Errorf("got %+v", w)
			}
			if got := h.claims(lifecycle.State(phase)); len(got) > 0 {
				t.Fatalf("control: %d jobs of Merritt are claimed", len(got))
			}
			h.do(id, record.Stop, lifecycle.Operator)
			if got := h.program.Status("/jobs/" + ids[0]); got != "Failed" {
				t.Errorf("after the stop it is %s in Merritt", got)
			}
			h.do(id, record.Retry, lifecycle.Operator)
			j := h.ended(id)
			if j.State != record.Completed || h.program.Status("/jobs/"+ids[0]) != "Completed" {
				t.Fatalf("it is %s: %s %s", j.State, j.Cause, j.Message)
			}
			d, err := record.DataOf(&j)
			h.ok(err)
			who, _ := d.Object()
			versions, files := h.contents(who.ARK)
			if versions != 1 {
				t.Errorf("%d versions", versions)
			}
			h.has(files, map[string]string{"producer/one.txt": "payload"})
		})
	}
}

// why waits until a reason is among those for which a job waits, and returns it.
func (h *harness) why(id job.ID, code string) job.Blocker {
	h.Helper()
	x := explain.New(h.engine)
	for {
		w, err := x.Why(h.Context(), id, time.Time{})
		h.ok(err)
		for _, b := range w.Blockers {
			if b.Code == code {
				return b
			}
		}
		runtime.Gosched()
	}
}

// TestTakeOverUpdate: an update takes out of the object what the node store names. One of an object that is stored in
// Merritt alone is left to it.
func TestTakeOverUpdate(t *testing.T) {
	h := newHarness(t)
	_, ids := h.begin("one", "two", "three")
	first := map[string]string{"producer/a": "a", "producer/b": "b"}
	h.leave("job-one", first, rowsOf(first)...)
	second := map[string]string{"producer/c": "c", "system/mrt-delete.txt": "b\n"}
	for _, name := range []string{"job-two", "job-three"} {
		h.leave(name, second, rowsOf(second)...)
	}
	h.process(ids[0], "job-one", processedMode)
	h.run()
	if j := h.ended(h.record(ids[0])); j.State != record.Completed {
		t.Fatalf("it is %s: %s", j.State, j.Message)
	}
	h.program.Delete = "producer/b\n"
	h.process(ids[1], "job-two", "update/9/ark%3A%2F99999%2Ffk4theirs")
	if j := h.ended(h.record(ids[1])); j.State != record.Completed {
		t.Errorf("it is %s: %s", j.State, j.Message)
	}
	versions, files := h.contents(processedARK)
	if _, kept := files["producer/b"]; kept || versions != 2 {
		t.Errorf("%d versions, %v", versions, files)
	}
	h.has(files, map[string]string{"producer/a": "a", "producer/c": "c"})
	h.process(ids[2], "job-three", "update/9/ark%3A%2F99999%2Ffk4other")
	if j := h.left(ids[2], record.Storing); j.Ended || !strings.Contains(j.Message, "fk4other") {
		t.Errorf("it is %s: %s", j.State, j.Message)
	}
}

// TestStoredInMerritt: what Merritt's storage has stored is entered in Merritt's inventory, not in that of Stagepost.
// Such a job is left to Merritt's programs.
func TestStoredInMerritt(t *testing.T) {
	h := newHarness(t)
	_, ids := h.begin("one.txt")
	h.leave("job-one.txt", workingFiles(), rowsOf(workingFiles())...)
	h.process(ids[0], "job-one.txt", processedMode)
	h.ok(h.program.Lock("/jobs/" + ids[0]))
	h.ok(h.program.Move(ids[0], "Recording", "Success"))
	h.ok(h.program.Unlock("/jobs/" + ids[0]))
	h.run()
	if j := h.left(ids[0], record.Recording); j.Ended {
		t.Fatalf("it is %s: %s", j.State, j.Message)
	}
	h.finishes("Recording")
	if j := h.ended(h.record(ids[0])); j.State != record.Completed {
		t.Errorf("it is %s: %s", j.State, j.Message)
	}
	if versions, _ := h.contents(processedARK); versions > 0 {
		t.Errorf("%d versions", versions)
	}
}

// TestTakeOverAgain: the work directory of a job is lost after Stagepost has taken what Merritt left, in Storing while
// Merritt has the lock of the object, or in Recording. The files are taken again, and the object is stored once. The
// control lacks them: the job waits for Merritt's storage and does not fail.
func TestTakeOverAgain(t *testing.T) {
	for _, one := range []struct {
		name  string
		state lifecycle.State
		gone  bool
	}{{"Storing", record.Storing, false}, {"Recording", record.Recording, false}, {"gone", record.Storing, true}} {
		t.Run(one.name, func(t *testing.T) {
			h := newHarness(t)
			_, ids := h.begin("one.txt")
			h.leave("job-one.txt", workingFiles(), rowsOf(workingFiles())...)
			h.process(ids[0], "job-one.txt", processedMode)
			held := job.Scope{Kind: record.JobKind, State: one.state}
			hold := func() {
				until := h.engine.Clock().Now().Add(2 * guard)
				_, err := h.engine.Operator().Hold(t.Context(), held, "op", "disks", until)
				h.ok(err)
			}
			lock := string(merritt.StorageLock(processedARK))
			if one.state == record.Storing {
				h.ok(h.program.Put(lock))
			} else {
				hold()
			}
			h.run()
			id := h.record(ids[0])
			j := h.await(id, func(j *job.Job) bool {
				d, err := record.DataOf(j)
				return err == nil && d.Taken && j.State == one.state
			})
			if one.state == record.Storing {
				hold()
			}
			h.await(id, func(j *job.Job) bool { return !j.Claimed() })
			h.ok(os.RemoveAll(filepath.Join(h.dir, workdir.WorkName, string(j.Parent), string(j.ID))))
			if one.gone {
				h.ok(os.RemoveAll(filepath.Join(h.queue, "bid-1")))
			}
			h.ok(h.program.Drop(lock))
			_, err := h.engine.Operator().Release(t.Context(), held, "op", "done")
			h.ok(err)
			if one.gone {
				if j := h.left(ids[0], record.Storing); j.Ended {
					t.Errorf("it is %s: %s", j.State, j.Message)
				}
				return
			}
			j = h.ended(id)
			versions, files := h.contents(processedARK)
			if j.State != record.Completed || versions != 1 {
				t.Errorf("it is %s: %s; %d versions", j.State, j.Message, versions)
			}
			h.has(files, workingFiles())
			h.sound()
		})
	}
}

// TestContinues: which processed jobs Stagepost can store, by what their nodes have.
func TestContinues(t *testing.T) {
	h := newHarness(t)
	_, ids := h.begin("one.txt")
	h.process(ids[0], "job-one.txt", processedMode)
	theirs := &job.Job{Kind: record.JobKind, Key: merritt.KeyOf(ids[0]), Spec: []byte(`{"size":-1}`)}
	ours := &job.Job{Kind: record.JobKind, Spec: []byte(`{"size":1}`)}
	read := func(manifest, mode string) *merritt.Processed {
		h.ok(h.program.Drop("/jobs/" + ids[0] + "/store"))
		h.ok(h.program.Hand(ids[0], manifest, mode, ""))
		p, err := h.f.link.Processed(t.Context(), ids[0])
		h.ok(err)
		return p
	}
	const good, phantom = "http://ingest.example/ingestqueue/bid-1/job-one.txt/system/mrt-manifest.txt",
		"http://ingest.example/manifest-phantom/"
	another := strings.Replace(good, "job-one", "job-two", 1)
	for _, one := range []struct {
		what, manifest, mode, queue string
		j                           *job.Job
		why                         string
	}{
		{"all", good, processedMode, "q", theirs, ""},
		{"no object", good, "add/9", "q", theirs, "names no object"},
		{"no directory", good, processedMode, "", theirs, "ingest.merritt.queue"},
		{"another manifest", another, processedMode, "q", theirs, "is not the one"},
		{"a manifest that is none", phantom, processedMode, "q", theirs, "is not the one"},
		{"the payload is here", phantom, processedMode, "", ours, ""},
	} {
		o := Options{Queue: one.queue}
		if why := o.continues(one.j, read(one.manifest, one.mode)); (why == "") != (one.why == "") ||
			!strings.Contains(why, one.why) {
			t.Errorf("%s: %q", one.what, why)
		}
	}
}
