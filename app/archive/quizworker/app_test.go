package quizworker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// harness is the application on an engine, in a synctest bubble.
type harness struct {
	*App
	t     *testing.T
	store job.Store
	stop  func()
}

func start(t *testing.T, store job.Store, dir string, p *plugin, change func(*Options)) *harness {
	t.Helper()
	o := Options{Dir: dir, Transport: p, Printer: &printer{}, Version: "1.2.3", Tokens: []string{"secret"}}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(store, a.Works(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	if err := a.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	return &harness{a, t, store, func() {
		cancel()
		if err := <-done; err != nil && job.KindOf(err) != job.Unavailable {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}}
}

func bubble(t *testing.T, p *plugin, change func(*Options), test func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, mem.New(), t.TempDir(), p, change)
		defer h.stop()
		test(h)
	})
}

// ask sends a request to the worker.
func (h *harness) ask(method, path, body string, change ...func(*http.Request)) (int, map[string]any) {
	h.t.Helper()
	r := httptest.NewRequestWithContext(h.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer secret")
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.Handler(nil).ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil && w.Code != http.StatusNotFound &&
		w.Code != http.StatusMethodNotAllowed {
		h.t.Errorf("%s %s: got %d: %s", method, path, w.Code, w.Body)
	}
	return w.Code, answer
}

// order sends an order and gives its UUID.
func (h *harness) order(path, body string) string {
	h.t.Helper()
	code, answer := h.ask("POST", path, body)
	uuid, _ := answer["jobid"].(string)
	if code != http.StatusOK || !uuidRule.MatchString(uuid) {
		h.t.Fatalf("got %d %v", code, answer)
	}
	return uuid
}

func (h *harness) end(uuid string) job.Job {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 72*time.Hour)
	defer cancel()
	j, err := h.find(ctx, uuid)
	if err != nil {
		h.t.Fatal(err)
	}
	j, err = h.engine.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		now, _ := h.store.Get(h.t.Context(), j.ID)
		h.t.Fatalf("%v: %s %s", err, now.State, now.Message)
	}
	return j
}

// gone checks that neither the token nor a file of a job remains, and that the record never had the token.
func (h *harness) gone(j *job.Job) {
	h.t.Helper()
	if left, err := os.ReadDir(h.options.Dir); err != nil || len(left) > 0 {
		h.t.Errorf("left: %v, %v", left, err)
	}
	if p, ok := h.options.Printer.(*printer); !ok || !slices.Contains(p.removed, j.ID) {
		h.t.Error("its PDF files were not removed")
	}
	history, err := h.store.History(h.t.Context(), j.ID, 0, 0)
	text, err2 := json.Marshal([]any{j, history})
	if err := errors.Join(err, err2); err != nil || bytes.Contains(text, []byte(token)) {
		h.t.Errorf("the record has the token: %s, %v", text, err)
	}
}

// unzip reads a ZIP file and checks each file against the digest beside it.
func unzip(t *testing.T, text []byte) map[string]string {
	t.Helper()
	files := ziptest.Files(t, text)
	for name, content := range files {
		if strings.HasSuffix(name, ".sha256") {
			continue
		}
		sum := sha256.Sum256([]byte(content))
		if want := hex.EncodeToString(sum[:]) + "  " + path.Base(name) + "\n"; files[name+".sha256"] != want {
			t.Errorf("%s.sha256 has %q, not %q", name, files[name+".sha256"], want)
		}
	}
	return files
}

// whole are the files of the archive of modern(nil), without the digests.
var whole = []string{
	"attempts/ANN/try_3/attachments/1/_a_b-2.txt", "attempts/ANN/try_3/attachments/1/_a_b.txt",
	"attempts/ANN/try_3/attempt-3.html", "attempts/ANN/try_3/attempt-3.pdf", "attempts/ann/Try/attempt-2.html",
	"attempts/ann/Try/attempt-2.pdf", "attempts_metadata.csv",
}

func contents(t *testing.T, text []byte) (names []string) {
	for _, name := range sorted(unzip(t, text)) {
		if !strings.HasSuffix(name, ".sha256") {
			names = append(names, name)
		}
	}
	return names
}

// TestArchive: an order of archivingmod_quiz from the request to the file in the Moodle (defects B17, B20, B21).
func TestArchive(t *testing.T) {
	p, printed := newPlugin(), &printer{slow: 7 * time.Second}
	bubble(t, p, func(o *Options) { o.Printer = printed }, func(h *harness) {
		code, answer := h.ask("POST", "/archive/archivingmod_quiz", modern(nil))
		uuid, _ := answer["jobid"].(string)
		if code != 200 || answer["status"] != 40.0 || answer["status_name"] != "AWAITING_PROCESSING" {
			t.Fatalf("got %d %v", code, answer)
		}
		if again := h.order("/archive/archivingmod_quiz", modern(nil)); again != uuid {
			t.Error("an order whose answer was lost makes a second job")
		}
		j := h.end(uuid)
		if j.State != Finished || len(p.taken) != 1 {
			t.Fatalf("got %s: %s; %v", j.State, j.Message, p.calls)
		}
		if diff := cmp.Diff(whole, contents(t, p.taken[0])); diff != "" {
			t.Error(diff)
		}
		table := unzip(t, p.taken[0])[metadataName]
		if !strings.Contains(table, "\n2,19,ann,Ann,\"Ünger, B.\",007,1,2,1,finished,attempts/ann/Try\n3,19,") {
			t.Errorf("got %s", table)
		}
		if diff := cmp.Diff([]string{"100", "200"}, p.statuses); diff != "" {
			t.Error(diff)
		}
		if images := printed.pages[0].Images; images == nil || images.Quality != 85 {
			t.Errorf("got %+v", printed.pages[0])
		}
		if code, answer := h.ask("GET", "/status/"+uuid, ""); code != 200 || answer["status"] != "FINISHED" {
			t.Errorf("got %d %v", code, answer)
		}
		h.gone(&j)
	})
	first := p.taken[0]
	second := newPlugin()
	bubble(t, second, nil, func(h *harness) {
		h.end(h.order("/archive/archivingmod_quiz", modern(map[string]any{"attemptids": []int{2, 3}})))
	})
	if len(second.taken) != 1 || !bytes.Equal(first, second.taken[0]) {
		t.Error("the same attempts give another ZIP file")
	}
}

// TestProgress: a report of progress follows the one before after 15 seconds at the earliest.
func TestProgress(t *testing.T) {
	p := newPlugin()
	var ids []int
	for i := 10; i < 40; i++ {
		ids = append(ids, i)
		p.reports[i] = fmt.Sprint("attempt ", i)
	}
	bubble(t, p, func(o *Options) { o.Printer = &printer{slow: 4 * time.Second} }, func(h *harness) {
		h.end(h.order("/archive/archivingmod_quiz", modern(map[string]any{"attemptids": ids})))
		if len(p.statuses) < 6 || len(p.statuses) > 10 {
			t.Errorf("got %v in 120 s", p.statuses)
		}
		for i := 1; i < len(p.times)-1; i++ { // the last one is a change
			if d := p.times[i].Sub(p.times[i-1]); d < statusEvery {
				t.Errorf("a report after %s", d)
			}
		}
	})
}

// TestBatches: metadata is requested for 100 attempts at a time.
func TestBatches(t *testing.T) {
	p := newPlugin()
	var ids []int
	for i := range 201 {
		ids = append(ids, 1000+i)
		p.reports[1000+i] = "text"
	}
	bubble(t, p, nil, func(h *harness) {
		j := h.end(h.order("/archive/archivingmod_quiz", modern(map[string]any{"attemptids": ids})))
		n := 0
		for _, name := range p.calls {
			if name == "get_attempts_metadata" {
				n++
			}
		}
		if j.State != Finished || n != 3 {
			t.Errorf("got %s and %d batches", j.State, n)
		}
	})
}

// TestLegacy: both routes of quiz_archiver, its words instead of numbers, and its backups.
func TestLegacy(t *testing.T) {
	for _, route := range []string{"/archive", "/archive/quiz_archiver"} {
		p := newPlugin()
		p.legacy, p.pending = true, 2
		bubble(t, p, nil, func(h *harness) {
			code, answer := h.ask("POST", route, legacyText())
			uuid, _ := answer["jobid"].(string)
			if code != 200 || answer["status"] != "AWAITING_PROCESSING" {
				t.Fatalf("got %d %v", code, answer)
			}
			j := h.end(uuid)
			if j.State != Finished || len(p.taken) != 1 {
				t.Fatalf("got %s: %s; %v", j.State, j.Message, p.calls)
			}
			want := []string{"attempts/ann/Try/attempt-2.pdf", "attempts_metadata.csv", "backups/1-course.mbz"}
			if diff := cmp.Diff(want, contents(t, p.taken[0])); diff != "" {
				t.Error(diff)
			}
			if !slices.Contains(p.statuses, "WAITING_FOR_BACKUP") || !slices.Contains(p.statuses, "FINALIZING") {
				t.Errorf("got %v", p.statuses)
			}
			h.gone(&j)
		})
	}
}

// TestFailures: each failure ends the job, the Moodle is notified, and no file is uploaded.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(*plugin)
		want   string // in the message
	}{
		"login page": {func(p *plugin) { p.reports[3] = `<form><input name="logintoken" value="x"></form>` },
			"login page"},
		"empty":      {func(p *plugin) { p.reports[3] = " " }, "no text"},
		"attachment": {func(p *plugin) { p.damaged = true }, "SHA-1"},
		"pattern": {func(p *plugin) { p.words["generate_attempt_report"] = "E_INVALID_FOLDERNAME_PATTERN" },
			"E_INVALID_FOLDERNAME_PATTERN"},
		"refused": {func(p *plugin) { p.words["process_uploaded_artifact"] = "E_NO_UPLOAD_EXPECTED" },
			"E_NO_UPLOAD_EXPECTED"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlugin()
			c.damage(p)
			bubble(t, p, nil, func(h *harness) {
				j := h.end(h.order("/archive/archivingmod_quiz", modern(nil)))
				if j.State != Failed || !strings.Contains(j.Message, c.want) {
					t.Errorf("got %s: %s", j.State, j.Message)
				}
				if len(p.taken) > 0 || p.statuses[len(p.statuses)-1] != "250" {
					t.Errorf("%d files, %v", len(p.taken), p.statuses)
				}
				h.gone(&j)
			})
		})
	}
}

// TestTaskGone: a task that the Moodle no longer has ends the job before the next attempt is fetched.
func TestTaskGone(t *testing.T) {
	p := newPlugin()
	p.words["update_task_status"] = "E_TASK_NOT_FOUND"
	bubble(t, p, nil, func(h *harness) {
		j := h.end(h.order("/archive/archivingmod_quiz", modern(nil)))
		if j.State != Failed || slices.Contains(p.calls, "generate_attempt_report") {
			t.Errorf("got %s, %v", j.State, p.calls)
		}
		h.gone(&j)
	})
}

// TestTimeout: the time of a job does not begin in the queue, and a job that takes longer ends in TimedOut.
func TestTimeout(t *testing.T) {
	p := newPlugin()
	slow := func(o *Options) { o.Printer, o.Jobs = &printer{slow: 25 * time.Minute}, 1 }
	bubble(t, p, slow, func(h *harness) {
		three := map[string]any{"attemptids": []int{2, 3, 7}}
		first := h.order("/archive/archivingmod_quiz", modern(three))
		second := h.order("/archive/archivingmod_quiz", modern(nil))
		j := h.end(first)
		if j.State != TimedOut || !slices.Contains(p.statuses, "251") {
			t.Errorf("got %s: %s; %v", j.State, j.Message, p.statuses)
		}
		if j = h.end(second); j.State != Finished {
			t.Errorf("got %s: %s", j.State, j.Message)
		}
		h.gone(&j)
	})
}

// TestCancel: a person cancels a job; the Moodle is notified.
func TestCancel(t *testing.T) {
	p := newPlugin()
	bubble(t, p, func(o *Options) { o.Printer = &printer{slow: 30 * time.Minute} }, func(h *harness) {
		uuid := h.order("/archive/archivingmod_quiz", modern(nil))
		time.Sleep(time.Minute)
		j, err := h.find(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		act := operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Operator, Actor: "ops"}
		if _, err := h.engine.Do(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		if j = h.end(uuid); j.State != Cancelled || p.statuses[len(p.statuses)-1] != "250" {
			t.Errorf("got %s; %v", j.State, p.statuses)
		}
		h.gone(&j)
	})
}

// TestCancelWithoutMoodle: what is printed for a job that is cancelled is abandoned at once, although the Moodle cannot
// be notified. The token of the Moodle is removed when it was.
func TestCancelWithoutMoodle(t *testing.T) {
	p, printed := newPlugin(), &printer{slow: 30 * time.Minute}
	bubble(t, p, func(o *Options) { o.Printer = printed }, func(h *harness) {
		uuid := h.order("/archive/archivingmod_quiz", modern(nil))
		time.Sleep(time.Minute)
		j, err := h.find(t.Context(), uuid)
		if err != nil {
			t.Fatal(err)
		}
		down := func(f func(int, string) fate) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.fail = f
		}
		down(func(int, string) fate { return lost })
		act := operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Operator, Actor: "ops"}
		if _, err := h.engine.Do(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		j, err = h.find(t.Context(), uuid)
		if err != nil || j.State != Cleanup || !slices.Contains(printed.removed, j.ID) {
			t.Errorf("while it is down: %s, %v, removed %v", j.State, err, printed.removed)
		}
		down(nil)
		if j = h.end(uuid); j.State != Cancelled {
			t.Errorf("got %s", j.State)
		}
		h.gone(&j)
	})
}

// TestFaults breaks each call of the Moodle once: refused, and with a lost answer. Every job finishes with the same
// file, which the Moodle accepts once.
func TestFaults(t *testing.T) {
	var want []byte
	for at := 0; ; at++ {
		n := 0
		for _, what := range []fate{refusedCall, lost} {
			p := newPlugin()
			p.fail = func(n int, _ string) fate {
				if n == at+1 { // the first is the probe
					return what
				}
				return works
			}
			bubble(t, p, nil, func(h *harness) {
				j := h.end(h.order("/archive/archivingmod_quiz", modern(nil)))
				if j.State != Finished || len(p.taken) != 1 {
					t.Fatalf("call %d: got %s: %s; %v", at, j.State, j.Message, p.calls)
				}
				if strings.Contains(j.Message, token) {
					t.Error("a message has the token")
				}
				h.gone(&j)
			})
			if want == nil {
				want = p.taken[0]
			}
			if !bytes.Equal(want, p.taken[0]) {
				t.Errorf("call %d: another file", at)
			}
			n = max(n, len(p.calls))
		}
		if at+1 >= n {
			break
		}
	}
}

// TestRestart stops the engine at each call of the Moodle and starts another one on the same store and directory.
func TestRestart(t *testing.T) {
	for at := 1; at < 14; at++ {
		synctest.Test(t, func(t *testing.T) {
			p, store, dir, printed := newPlugin(), mem.New(), t.TempDir(), &printer{}
			change := func(o *Options) { o.Printer = printed }
			reached := make(chan struct{})
			p.fail = func(n int, _ string) fate {
				if n == at {
					close(reached)
					time.Sleep(time.Second)
					return lost
				}
				return works
			}
			h := start(t, store, dir, p, change)
			uuid := h.order("/archive/archivingmod_quiz", modern(nil))
			select {
			case <-reached:
			case <-time.After(time.Hour): // the job has fewer calls
			}
			h.stop()
			h = start(t, store, dir, p, change)
			defer h.stop()
			j := h.end(uuid)
			if j.State != Finished || len(p.taken) != 1 {
				t.Fatalf("call %d: got %s: %s; %v", at, j.State, j.Message, p.calls)
			}
			h.gone(&j)
		})
	}
}

// TestInterrupted: what an interrupted attempt left is not in the archive when the Moodle names another folder the next
// time, as it does for patterns with ${timestamp}.
func TestInterrupted(t *testing.T) {
	p := newPlugin()
	p.wander = true
	fails := 2
	broken := &printer{before: func() error {
		if fails--; fails >= 0 {
			return errLost
		}
		return nil
	}}
	bubble(t, p, func(o *Options) { o.Printer = broken }, func(h *harness) {
		j := h.end(h.order("/archive/archivingmod_quiz", modern(map[string]any{"attemptids": []int{2}})))
		if j.State != Finished || len(p.taken) != 1 {
			t.Fatalf("got %s: %s", j.State, j.Message)
		}
		names := contents(t, p.taken[0])
		if len(names) != 3 || path.Dir(names[0]) != path.Dir(names[1]) {
			t.Errorf("got %v", names)
		}
	})
}

// TestOffered: what is uploaded is durable before the Moodle is asked to take it, so that a crash during the request
// does not upload it again.
func TestOffered(t *testing.T) {
	p, asked := newPlugin(), 0
	bubble(t, p, nil, func(h *harness) {
		var uuid string
		p.fail = func(_ int, name string) fate {
			if name == "process_uploaded_artifact" {
				var d data
				j, err := h.find(context.Background(), uuid)
				if err := errors.Join(err, decode(j.Data, &d)); err != nil || d.Artifact == nil || !d.Offered {
					t.Errorf("the record has %s, %v", j.Data, err)
				}
				asked++
			}
			return works
		}
		uuid = h.order("/archive/archivingmod_quiz", modern(nil))
		h.end(uuid)
		if asked != 1 {
			t.Errorf("%d requests", asked)
		}
	})
}

// TestSweep: the token of an order that has no job is removed at the start, that of an open job is not.
func TestSweep(t *testing.T) {
	p := newPlugin()
	bubble(t, p, func(o *Options) { o.Printer = &printer{slow: 10 * time.Minute} }, func(h *harness) {
		uuid := h.order("/archive/archivingmod_quiz", modern(nil))
		time.Sleep(time.Second)
		orphan := filepath.Join(h.options.Dir, "00000000-0000-8000-8000-000000000000")
		if err := os.Mkdir(orphan, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := h.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(orphan); err == nil {
			t.Error("the folder without a job is still there")
		}
		info, err := os.Stat(filepath.Join(h.options.Dir, uuid, secretName))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("got %v, %v", info, err)
		}
		h.end(uuid)
	})
}
