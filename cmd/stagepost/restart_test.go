package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/format/checkm"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var (
	restarts        = flag.Int("restarts", 8, "how often TestRestart stops and starts the server")
	restartsObjects = flag.Int("restarts-objects", 150, "objects of the batch of TestRestart")
)

// depot is a source of many small files. Some of them stop halfway, the first time that they are fetched, until the
// client closes the connection.
type depot struct {
	*httptest.Server
	mu      sync.Mutex // guards the rest
	fetched int
	stalled map[string]bool
	marks   map[int]chan struct{} // closed when so many requests have come
	unseen  map[string]bool       // not requested yet
	seen    chan struct{}         // closed when everything has been requested
	whole   bool                  // nothing stops halfway any more
}

func newDepot(t *testing.T) *depot {
	d := &depot{stalled: map[string]bool{}, marks: map[int]chan struct{}{}, unseen: map[string]bool{},
		seen: make(chan struct{})}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

// stalls counts a request and reports whether it is one that stops halfway.
func (d *depot) stalls(r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fetched++
	if c := d.marks[d.fetched]; c != nil {
		close(c)
	}
	if d.unseen[r.URL.Path] {
		if delete(d.unseen, r.URL.Path); len(d.unseen) == 0 {
			close(d.seen)
		}
	}
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "7.txt") || d.stalled[r.URL.Path] || d.whole {
		return false
	}
	d.stalled[r.URL.Path] = true
	return true
}

func (d *depot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text := parcel(r.URL.Path)
	w.Header().Set("ETag", `"1"`)
	if !d.stalls(r) {
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = io.WriteString(w, text[:len(text)/2])
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// mend lets everything be fetched at once.
func (d *depot) mend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.whole = true
}

// mark gives a channel that is closed when so many more requests have come.
func (d *depot) mark(more int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := make(chan struct{})
	d.marks[d.fetched+more] = c
	return c
}

// parcel is the text of a file.
func parcel(path string) string { return strings.Repeat(path+"\n", 100) }

// manifest lists n files of the depot, an object each.
func (d *depot) manifest(t *testing.T, n int) []byte {
	t.Helper()
	var text bytes.Buffer
	w := checkm.NewWriter(&text, checkm.BatchFiles)
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n {
		path := fmt.Sprintf("/parcel%04d.txt", i)
		d.unseen[path] = true
		sum := sha256.Sum256([]byte(parcel(path)))
		if err := w.Write(checkm.Row{
			URL: d.URL + path, FileName: path[1:], Size: int64(len(parcel(path))), LocalID: path[1:],
			Digest: checkm.Digest{Algorithm: "sha256", Value: hex.EncodeToString(sum[:])},
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// TestRestart stops the real server with SIGTERM at many moments of a batch and starts it again. In the end every
// object is stored once and no history has a failure: running steps continued, or were released without being
// counted. Each connected client got a proper end.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := &restarted{t: t, signal: syscall.SIGTERM}
	w.run(*restarts, *restartsObjects)
	for _, wrong := range w.wrong {
		t.Error(wrong)
	}
	if len(w.yields) == 0 {
		t.Error("nothing was given back: the stops came at the wrong moments to show anything")
	}
}

// TestRestartSees is the control: a server that is killed breaks connections and leaves claims that are found lost, and
// the test above notices.
func TestRestartSees(t *testing.T) {
	t.Parallel()
	w := &restarted{t: t, signal: syscall.SIGKILL}
	w.run(3, 40)
	all := strings.Join(w.wrong, "\n")
	for _, what := range []string{"signal: killed", "the stream broke", ": lost in "} {
		if !strings.Contains(all, what) {
			t.Errorf("not noticed: %q:\n%s", what, all)
		}
	}
}

// run lets a batch of so many objects be ingested by a server that is stopped so many times.
func (w *restarted) run(stops, objects int) {
	t := w.t
	w.dir, w.depot, w.chance, w.yields = t.TempDir(), newDepot(t), rand.New(rand.NewPCG(1, 7)),
		map[lifecycle.State]int{}
	profile := filepath.Join(w.dir, "profiles", "local.yaml")
	if err := os.MkdirAll(filepath.Dir(profile), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, profile, "id: local\nallow_networks: [127.0.0.0/8]\n")
	v := w.start(300 * time.Millisecond)
	c := w.client(v)
	batch, err := c.Submit(t.Context(), client.Submission{Type: "single-file-batch-manifest", Profile: "local",
		Filename: "all.checkm"},
		bytes.NewReader(w.depot.manifest(t, objects)))
	if err != nil {
		t.Fatal(err)
	}
	w.batch = batch.ID
	for round := range stops {
		w.stop(v, round)
		if round == stops-1 {
			w.depot.mend()
		}
		v = w.start([]time.Duration{time.Millisecond, 300 * time.Millisecond}[round%2])
	}
	c = w.client(v)
	if err := c.Watch(t.Context(), batch.ID, 0, func(client.Update) error { return nil }); err != nil {
		t.Fatal(err)
	}
	w.check(c, objects)
	t.Logf("%d stops, %d objects, %d uploads finished meanwhile, given back: %v", stops, objects, w.accepted, w.yields)
	v.signal(t, os.Interrupt)
	if err := v.Wait(); err != nil {
		t.Error(err)
	}
	for _, command := range []string{"verify", "fsck"} {
		if out, err := exec.Command(v.Path, "admin", command, "--data", w.dir).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
	report, err := ocfl.Validate(t.Context(), filepath.Join(w.dir, "storage"))
	if err != nil || !report.Valid() || report.Objects != objects+w.accepted {
		t.Errorf("the storage root has %d objects of %d and %d: %+v, %v", report.Objects, objects, w.accepted, report,
			err)
	}
}

// restarted is a server that is stopped and started while it works.
type restarted struct {
	t        *testing.T
	dir      string
	depot    *depot
	chance   *rand.Rand
	batch    job.ID
	grace    time.Duration
	signal   syscall.Signal
	uploads  int
	accepted int // uploads that were finished after the signal
	yields   map[lifecycle.State]int

	mu    sync.Mutex // guards wrong
	wrong []string   // what must not be when the server is stopped as it should be
}

func (w *restarted) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *restarted) start(grace time.Duration) *victim {
	w.t.Helper()
	w.grace = grace
	v := prepare(w.t, w.dir, "--log-level", "error", "--slots", "8", "--grace", grace.String())
	v.begin(w.t)
	return v
}

func (w *restarted) client(v *victim) *client.Client {
	w.t.Helper()
	c, err := client.New(v.url, client.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(c.Close)
	return c
}

// stop sends the signal at a moment in the midst of work, to a server with which people are connected in two ways.
func (w *restarted) stop(v *victim, round int) {
	w.t.Helper()
	var wait sync.WaitGroup
	streaming := make(chan struct{})
	wait.Go(func() { w.stream(v, streaming) })
	upload := w.upload(v, round%3)
	<-streaming
	mark := w.depot.mark(1 + w.chance.IntN(40))
	select {
	case <-mark:
	case <-w.depot.seen: // the batch is nearly done
		select {
		case <-mark:
		case <-time.After(time.Second): // one moment of what is left is as good as another
		}
	}
	<-time.After(time.Duration(w.chance.Int64N(int64(60 * time.Millisecond)))) // the moment is the experiment
	began := time.Now()
	v.signal(w.t, w.signal)
	upload.after()
	if err := v.Wait(); err != nil {
		w.complain("round %d: %v", round, err)
	}
	if took := time.Since(began); took > w.grace+30*time.Second {
		w.complain("round %d: it took %s to stop, with a grace of %s", round, took, w.grace)
	}
	wait.Wait()
	upload.end()
	if _, err := os.Stat(filepath.Join(w.dir, "address")); !errors.Is(err, os.ErrNotExist) {
		w.complain("round %d: the address is still there: %v", round, err)
	}
}

// stream watches the batch; its stream must end, not break.
func (w *restarted) stream(v *victim, ready chan<- struct{}) {
	answer, err := http.Get(v.url + "/api/v1/jobs/" + string(w.batch) + "/events")
	if err != nil {
		w.complain("the stream: %v", err)
		close(ready)
		return
	}
	defer answer.Body.Close()
	in := bufio.NewReader(answer.Body)
	if _, err := in.ReadString('\n'); err != nil {
		w.complain("the stream: %v", err)
	}
	close(ready)
	if _, err := io.Copy(io.Discard, in); err != nil {
		w.complain("the stream broke: %v", err)
	}
}

// upload is a payload that is under way when the server gets the signal.
type upload struct {
	after func() // what its sender does then
	end   func() // checks the answer
}

// upload begins to hand in a file: with way 0 none, with 1 its sender goes on after the signal and is done in time,
// with 2 it sends nothing more.
func (w *restarted) upload(v *victim, way int) upload {
	if way == 0 {
		return upload{func() {}, func() {}}
	}
	w.uploads++
	name := fmt.Sprintf("upload%d.txt", w.uploads)
	pipe, sender := io.Pipe()
	q, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, v.url+"/api/v1/ingest/submissions", pipe)
	if err != nil {
		w.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	type result struct {
		answer *http.Response
		err    error
	}
	got := make(chan result, 1)
	go func() {
		answer, err := http.DefaultClient.Do(q)
		got <- result{answer, err}
	}()
	head := "--B\r\nContent-Disposition: form-data; name=\"type\"\r\n\r\nfile\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"local_ids\"\r\n\r\n" + name + "\r\n" +
		"--B\r\nContent-Disposition: form-data; name=\"payload\"; filename=\"" + name + "\"\r\n\r\n" +
		strings.Repeat("text ", 20_000)
	if _, err := io.WriteString(sender, head); err != nil {
		w.t.Fatal(err)
	}
	after := func() {
		if way == 1 {
			_, _ = io.WriteString(sender, "and the rest\r\n--B--\r\n") // refused: the answer shows it
			_ = sender.Close()
		}
	}
	return upload{after, func() {
		if w.signal == syscall.SIGKILL {
			_ = sender.Close() // the rest is not read, and the client waits for it
		}
		r := <-got
		_ = sender.Close()
		if r.err != nil {
			w.complain("an upload got no answer: %v", r.err)
			return
		}
		text, err := io.ReadAll(r.answer.Body)
		_ = r.answer.Body.Close()
		switch status := r.answer.StatusCode; {
		case err != nil:
			w.complain("an upload got half an answer: %s, %v", r.answer.Status, err)
		case status == http.StatusCreated && way == 1:
			w.accepted++
		case status != http.StatusServiceUnavailable || !strings.Contains(string(text), "the server stops"):
			w.complain("an upload got %s: %s", r.answer.Status, text)
		}
	}}
}

// quiet waits until all jobs have ended: the uploads that were accepted do so by themselves.
func (w *restarted) quiet(c *client.Client) {
	w.t.Helper()
	no := false
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-tick.C {
		page, err := c.Jobs(w.t.Context(), job.Query{Ended: &no})
		if err != nil {
			w.t.Fatal(err)
		}
		if len(page.Jobs) == 0 {
			return
		}
	}
	w.t.Fatal("jobs are open after five minutes")
}

// check checks the results of the batch and its jobs.
func (w *restarted) check(c *client.Client, objects int) {
	w.t.Helper()
	b, err := c.Job(w.t.Context(), w.batch)
	if err != nil || b.State != "Completed" || b.Children.OK != objects {
		w.t.Fatalf("the batch is %s with %+v: %s, %v", b.State, b.Children, b.Message, err)
	}
	w.quiet(c)
	jobs := []job.ID{w.batch}
	q := job.Query{Parent: w.batch, Limit: 1000}
	for {
		page, err := c.Jobs(w.t.Context(), q)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, j := range page.Jobs {
			jobs = append(jobs, j.ID)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	for _, id := range jobs {
		history, err := c.History(w.t.Context(), id, 0, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range history {
			switch e.Event {
			case lifecycle.Backoff, lifecycle.Lost, "fail":
				w.complain("%s: %s in %s: %s", id, e.Event, e.From, e.Note)
			case lifecycle.Yield:
				w.yields[e.From]++
			}
		}
	}
}
