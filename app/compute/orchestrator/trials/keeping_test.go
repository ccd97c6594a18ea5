//go:build linux

package trials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// An upload that is refused, or cut, leaves nothing.
func nothingStays(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), func(s *setting) { s.wire.Limits.Body = 1 << 20 })
	big := strings.Repeat("x", 512<<10)
	for service, files := range map[string]map[string]string{
		"nothing": {"run.sh": "true", "big": big},
		"example": {"run.sh": "true", "big": big + big + big},
	} {
		media, body := form(service, 1, files)
		if code, got := s.ask("POST", "/upload", media, body); code != 400 && code != 413 {
			t.Errorf("%s: %d %+v", service, code, got)
		}
	}
	media, body := form("example", 1, map[string]string{"run.sh": "true", "big": big})
	whole := body.Bytes()
	q, err := http.NewRequest("POST", s.url+"/upload", io.MultiReader(bytes.NewReader(whole[:len(whole)/2]), broken{}))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Content-Type", media)
	if _, err := http.DefaultClient.Do(q); err == nil {
		t.Error("control: the upload was not cut")
	}
	for _, dir := range []string{"stage", "jobs"} {
		eventually(t, dir+" is empty", func() bool {
			found, err := filepath.Glob(filepath.Join(s.dir, "compute", dir, "*"))
			return err == nil && len(found) == 0
		})
	}
	if n, err := s.store.Count(t.Context()); err != nil || len(n) != 0 {
		t.Errorf("jobs: %v, %v", n, err)
	}
}

// broken is a body whose sender ends.
type broken struct{}

// Read is part of io.Reader.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Records go some time after the files.
func purged(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), func(s *setting) {
		s.compute.Keep = 10 * time.Millisecond
		s.engine.Retain = engine.Retention{Every: 20 * time.Millisecond, Records: 100 * time.Millisecond}
	})
	for range 5 {
		s.upload("true")
	}
	eventually(t, "no record is left", func() bool {
		page, err := s.store.List(t.Context(), job.Query{Kinds: []job.Kind{compute.JobKind}, Limit: 1})
		return err == nil && len(page.Jobs) == 0
	})
	if code, got := s.ask("GET", "/download/1", "", nil); code != 404 {
		t.Errorf("%d %+v", code, got)
	}
	if next := s.upload("true"); next <= 5 {
		t.Errorf("the id %d is used again", next)
	}
}

// journal is a log.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write is part of io.Writer.
func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// No log has what requests bring to show who sends them, nor the secret of a ticket.
func noSecretsInLogs(t *testing.T) {
	j := &journal{}
	log := slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
	a := employOn(t, mem.New(), agent.HandlerOptions{Token: "agents-token-sesame"},
		func(o *agent.Options) { o.Log = log })
	x, err := agent.Dial(agent.DialOptions{URL: a.url, Token: "agents-token-sesame"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	s := open(t, with(x), func(s *setting) {
		s.compute.Log, s.wire.Log, s.engine.Log = log, log, log
		s.wire.Who = func(r *http.Request) (wire.Caller, error) {
			if r.Header.Get("Authorization") == "Bearer users-token-sesame" {
				return wire.Caller{Owner: "ann"}, nil
			}
			return wire.Caller{}, fmt.Errorf("wrong token")
		}
	})
	good, bad := s.user, s.user
	good.token, bad.token = "users-token-sesame", "other-token-sesame"
	id := good.uploadTo("example", 1, map[string]string{"run.sh": "exit 3"})
	s.ends(id, compute.Failed, compute.CauseExit)
	bad.do("GET", "/download/1", "", nil)
	(user{T: t, url: a.url, token: "other-token-sesame"}).do("GET", "/retrieve/1", "", nil)
	secret := s.data(id).Secret
	j.mu.Lock()
	defer j.mu.Unlock()
	if text := j.text.String(); strings.Contains(text, "sesame") || strings.Contains(text, secret) || len(secret) < 20 {
		t.Errorf("the log has secrets: %.2000s", text)
	} else if !strings.Contains(text, string(s.job(id).ID)) {
		t.Error("control: the log has nothing")
	}
}

// A name that the file system does not take is answered.
func longNames(t *testing.T) {
	a := employ(t, nil)
	s := open(t, with(dial(t, a.url)), nil)
	media, body := form("example", 1, map[string]string{"run.sh": "true", strings.Repeat("n", 300): "x"})
	code, got := s.ask("POST", "/upload", media, bytes.NewReader(body.Bytes()))
	if code != 500 || got.Message != "Could not save file: File creation failed: File name too long (os error 36)" {
		t.Errorf("%d %+v", code, got)
	}
	if code, _, text := (user{T: t, url: a.url}).do("POST", "/submit", media, body); code != 400 && code != 500 ||
		!bytes.HasPrefix(text, []byte(`{"id":0,"input":{}`)) {
		t.Errorf("%d %s", code, text)
	}
	if n := len(a.payloads()); n != 0 {
		t.Errorf("%d payloads", n)
	}
	s.ends(s.upload("true"), compute.Completed, "")
}

// The output of a job is there while it runs, and in its results.
func output(t *testing.T) {
	l := newLatch(t)
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	id := s.upload("echo out; echo err >&2\n" + l.wait())
	l.arrived(1)
	eventually(t, "the log of a job that runs", func() bool { return s.log(id) == "out\n" })
	l.lift()
	s.ends(id, compute.Completed, "")
	if files := s.results(id); files["stdout"] != "out\n" || files["stderr"] != "err\n" ||
		!contains(files["exit.json"], `"exit_code": 0`) && !contains(files["exit.json"], `"exit_code":0`) {
		t.Errorf("got %q", files)
	}
	c := theirs(t, example(wiretest.Client(t, wiretest.ClientOptions{})))
	id = c.upload(script("echo out; echo err >&2"))
	c.until(id, "Completed")
	for name, text := range c.results(id) {
		if name != "run.sh" && contains(text, "out\n") {
			t.Errorf("control: the original keeps the output in %s", name)
		}
	}
}

// Jobs are listed with filters and a cursor, those that wait with their position; and there are metrics.
func listed(t *testing.T) {
	p := launch(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-local", "2",
		"--compute-sandbox", "none", "--log-level", "error")
	d := &death{T: t, server: p, latch: newLatch(t), mark: "86400.0", service: "default"}
	for range 5 {
		d.submit()
	}
	api := d.api()
	last := d.id.ID
	in := func(state string) int {
		page, err := api.ComputeJobs(t.Context(), client.ComputeQuery{States: []string{state}})
		if err != nil {
			return 0
		}
		return len(page.Jobs)
	}
	eventually(t, "two run, and the last has the last position of those that wait", func() bool {
		// one may wait at the agent already
		j, err := api.ComputeJob(t.Context(), last)
		waiting := in("Queued")
		return err == nil && in("Running") == 2 && waiting >= 2 && j.QueuePosition == waiting
	})
	d.latch.lift()
	d.until(compute.Completed)
	seen := map[job.ID]bool{}
	for q := (client.ComputeQuery{Services: []string{"default"}, Limit: 2}); ; {
		page, err := api.ComputeJobs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			seen[j.ID] = true
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("%d jobs on all pages", len(seen))
	}
	eventually(t, "the metrics show the agent, and the jobs and bytes of the service", func() bool {
		_, _, text := (user{T: t, url: p.url}).do("GET", "/metrics", "", nil)
		return contains(string(text), `stagepost_compute_agent_up{agent="local"} 1`) && contains(string(text), `stagepost_compute_run_seconds_count{service="default",state="Completed"} 5`) &&
			contains(string(text), `stagepost_compute_bytes_total{service="default",way="from-agent"}`)
	})
}

// An upload that was cut goes on where it was, and one that is too large is refused.
func resumed(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), func(s *setting) { s.wire.Limits.Body = 1000 })
	media, body := form("example", 1, map[string]string{"run.sh": strings.Repeat("#", 2000)})
	if code, got := s.ask("POST", "/upload", media,
		bytes.NewReader(body.Bytes())); code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %+v", code, got)
	}
	strict := open(t, nil, func(s *setting) { s.wire.Limits.Body, s.wire.Compat = 1000, wire.Strict })
	if code, got := strict.ask("POST", "/upload", media, body); code != http.StatusBadRequest {
		t.Errorf("strict: %d %+v", code, got)
	}
	t.Run("after a kill", resumedAfterKill)
}

// What of an upload has arrived is still there when the server was killed in the middle, and an order takes the whole.
func resumedAfterKill(t *testing.T) {
	p := launch(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-local", "2",
		"--compute-sandbox", "none", "--log-level", "error")
	text := "echo made >made.txt\n" + strings.Repeat("#", 10_000)
	tus := func(method, path string, header map[string]string, part string) *http.Response {
		q, err := http.NewRequest(method, path, strings.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Tus-Resumable", "1.0.0")
		for name, value := range header {
			q.Header.Set(name, value)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a
	}
	a := tus("POST", p.url+"/api/v1/compute/uploads", map[string]string{"Upload-Length": fmt.Sprint(len(text)),
		"Upload-Metadata": "filename " + base64.StdEncoding.EncodeToString([]byte("run.sh"))}, "")
	at, err := a.Location()
	if err != nil {
		t.Fatalf("%s, %v", a.Status, err)
	}
	send := func(from, to int) int {
		return tus("PATCH", at.String(), map[string]string{"Upload-Offset": fmt.Sprint(from),
			"Content-Type": "application/offset+octet-stream"}, text[from:to]).StatusCode
	}
	if code := send(0, 4000); code != 204 {
		t.Errorf("the first part: %d", code)
	}
	p.kill() // in the middle
	p.start()
	at.Host = strings.TrimPrefix(p.url, "http://")
	if got := tus("HEAD", at.String(), nil, "").Header.Get("Upload-Offset"); got != "4000" {
		t.Errorf("offset %q after the server was killed", got)
	}
	if code := send(3000, len(text)); code != 409 {
		t.Errorf("a wrong offset: %d", code)
	}
	if code := send(4000, len(text)); code != 204 {
		t.Errorf("the rest: %d", code)
	}
	order, err := json.Marshal(map[string]any{"service": "default",
		"uploads": []string{at.Path[strings.LastIndexByte(at.Path, '/')+1:]}})
	if err != nil {
		t.Fatal(err)
	}
	d := &death{T: t, server: p}
	code, _, answer := (user{T: t, url: p.url}).do("POST", "/api/v1/compute/jobs", "application/json",
		bytes.NewReader(order))
	if err := json.Unmarshal(answer, &d.id); err != nil || code/100 != 2 {
		t.Fatalf("%d %s", code, answer)
	}
	d.until(compute.Completed)
	d.made(d.id)
}

// Names with underscores are services, paths become absolute, and what is invalid is refused with words.
func configured(t *testing.T) {
	c, err := wire.Environ([]string{"SERVICE_MY_TOOL_UPLOAD_URL=http://c:9000/submit", "SERVICE_MY_TOOL_RUNS_PER_USER=3", "DATA_PATH=data"}, wire.ServerMode)
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := c.Services["my_tool"]; !ok || s.RunsPerUser != 3 || !filepath.IsAbs(c.DataPath) ||
		len(c.Services) != 1 {
		t.Errorf("got %+v", c)
	}
	p := &process{t: t}
	for _, env := range []string{"SERVICE_X_MAX_RUNS=many", "PORT=70000", "MAX_AGE=soon"} {
		code, text := p.fails([]string{env, "SERVICE_X_UPLOAD_URL=http://127.0.0.1:1/submit"}, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-listen", "127.0.0.1:0")
		name, _, _ := strings.Cut(env, "=")
		if code != 2 || !strings.Contains(text, name) || strings.Contains(text, "goroutine") {
			t.Errorf("%s: %d %s", env, code, text)
		}
	}
	address := wiretest.Address(t)
	// in a directory of its own
	relative := launch(t, []string{"DATA_PATH=data"}, "compute", "agent", "--listen", address, "--sandbox", "none")
	s := open(t, with(dial(t, relative.url)), nil)
	s.ends(s.upload("echo made >made.txt"), compute.Completed, "")
}
