package wire

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// desk is a small agent: payloads in directories, run by bash if run is set.
type desk struct {
	t    testing.TB
	data string
	run  bool
	wg   sync.WaitGroup
	ctx  context.Context

	mu       sync.Mutex
	payloads map[uint32]*deskPayload
	next     uint32
	keys     map[string]uint32
	open     int

	beginErr, fileErr, killErr, loadErr, resultErr, payloadErr error

	load float64
}

type deskPayload struct {
	Payload
	files map[string]string
	zip   []byte
	kill  context.CancelFunc
}

func newDesk(t testing.TB, run bool) *desk {
	ctx, stop := context.WithCancel(context.Background())
	d := &desk{t: t, data: t.TempDir(), run: run, ctx: ctx, payloads: map[uint32]*deskPayload{}, next: 1_700_000_000,
		keys: map[string]uint32{}}
	t.Cleanup(func() {
		stop()
		d.wg.Wait()
	})
	return d
}

type deskSubmission struct {
	d          *desk
	p          *deskPayload
	key, token string
	done       bool
}

func (d *desk) Begin(context.Context) (Submission, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.beginErr != nil {
		return nil, d.beginErr
	}
	d.open++
	return &deskSubmission{d: d, p: &deskPayload{files: map[string]string{}}}, nil
}

func (s *deskSubmission) Key(key string) error { s.key = key; return nil }
func (s *deskSubmission) Guard(token string)   { s.token = token }

func (s *deskSubmission) File(name string, r io.Reader) error {
	if s.d.fileErr != nil {
		return s.d.fileErr
	}
	data, err := io.ReadAll(r)
	s.p.files[name] = string(data)
	return err
}

func (s *deskSubmission) Commit(context.Context) (Payload, error) {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.Discarded()
	if id, again := s.d.keys[s.key]; again {
		return s.d.payloads[id].Payload, nil
	}
	s.d.next++
	s.p.Payload = Payload{ID: s.d.next, Status: Prepared, Loc: filepath.Join(s.d.data, fmt.Sprint(s.d.next)),
		Instance: "i1", Token: s.token}
	s.d.payloads[s.d.next] = s.p
	if s.key != "" {
		s.d.keys[s.key] = s.d.next
	}
	p := s.p.Payload
	if s.d.run {
		s.d.start(s.p)
	}
	return p, nil
}

func (s *deskSubmission) Discarded() {
	if !s.done {
		s.done = true
		s.d.open--
	}
}

func (s *deskSubmission) Discard() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.Discarded()
}

// start runs run.sh and waits for it in the background.
func (d *desk) start(p *deskPayload) {
	os.MkdirAll(p.Loc, 0o755)
	for name, data := range p.files {
		os.WriteFile(filepath.Join(p.Loc, name), []byte(data), 0o644)
	}
	ctx, kill := context.WithCancel(d.ctx)
	p.kill, p.Status = kill, Running
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(p.Loc, "run.sh"))
	cmd.Dir, cmd.WaitDelay = p.Loc, time.Second
	d.wg.Go(func() {
		err := cmd.Run()
		zip := zipOf(p.Loc)
		d.mu.Lock()
		defer d.mu.Unlock()
		p.zip = zip
		switch {
		case ctx.Err() != nil:
			p.Status = Killed
		case err != nil:
			code := cmd.ProcessState.ExitCode()
			p.Status, p.ExitCode, p.Reason = Failed, &code, "exit"
		default:
			p.Status = Completed
		}
	})
}

func zipOf(dir string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.AddFS(os.DirFS(dir))
	z.Close()
	return b.Bytes()
}

func (d *desk) Payload(_ context.Context, id uint32) (Payload, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.payloadErr != nil {
		return Payload{}, d.payloadErr
	}
	if p := d.payloads[id]; p != nil {
		return p.Payload, nil
	}
	return Payload{}, ErrNotFound
}

func (d *desk) Result(_ context.Context, id uint32) (Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	zip := d.payloads[id].zip
	return Result{seeker{bytes.NewReader(zip)}, int64(len(zip)), "tag", time.Time{}}, d.resultErr
}

func (d *desk) Partial(_ context.Context, id uint32, w func() io.Writer) error {
	d.mu.Lock()
	p := d.payloads[id]
	d.mu.Unlock()
	if _, err := os.Stat(p.Loc); err != nil {
		return err
	}
	_, err := w().Write(zipOf(p.Loc))
	return err
}

func (d *desk) Kill(_ context.Context, id uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.killErr == nil && d.payloads[id].kill != nil {
		d.payloads[id].kill()
	}
	return d.killErr
}

func (d *desk) Load(context.Context) (float64, error) { return d.load, d.loadErr }
func (d *desk) Health(context.Context) error          { return nil }

func (d *desk) add(p Payload) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.payloads[p.ID] = &deskPayload{Payload: p, zip: []byte("PK zip")}
}

const emptyPayload = `{"id":0,"input":{},"status":"Unknown","loc":"","pid":0,"killed":false}`

func TestAgentRows(t *testing.T) {
	d := newDesk(t, false)
	for i, s := range Statuses() {
		d.add(Payload{ID: uint32(i + 1), Status: s, Loc: "/d/<1>", PID: 7, Killed: s == Killed,
			Reason: "hidden in strict"})
	}
	addr := listen(t, Agent(d, AgentOptions{Compat: Strict}))
	rows := []want{
		{"GET", "/", 200, jsonMedia, `{"message":"pong"}`, ""},
		{"GET", "/health", 200, jsonMedia, `{"status":"ok","database":"ok"}`, ""},
		{"GET", "/load", 200, jsonMedia, `0.0`, ""},
		{"GET", "/retrieve/9999", 404, jsonMedia, emptyPayload, ""},
		{"GET", "/retrieve_partial/9999", 404, jsonMedia, emptyPayload, ""},
		{"POST", "/kill/9999", 404, jsonMedia, emptyPayload, ""},
		{"POST", "/kill/1", 200, "", "", "Content-Length: 0"},
		{"GET", "/retrieve_partial/1", 500, jsonMedia, emptyPayload, ""}, // its directory is missing
		{"GET", "/retrieve/7", 200, zipMedia, "PK zip", "Content-Length: 6"},
		{"HEAD", "/retrieve/7", 200, zipMedia, "", "Content-Length: 6"},
		{"GET", "/retrieve/x", 400, textMedia, "Invalid URL: Cannot parse `x` to a `u32`", ""},
		{"GET", "/retrieve/", 404, "", "", ""},
		{"GET", "/retrieve//7", 404, "", "", ""},
		{"GET", "/swagger/", 404, "", "", ""},
		{"GET", "/download/1", 404, "", "", ""},
		{"POST", "/retrieve/1", 405, "", "", "Allow: GET,HEAD"},
		{"GET", "/kill/1", 405, "", "", "Allow: POST"},
		{"GET", "/submit", 405, "", "", "Allow: POST"},
	}
	// Only words that a server of the original can live with.
	for i, said := range []Status{Prepared, Running, Running, Prepared, Running, Cleaned, "", Failed, Invalid, Running,
		Running, Killed} {
		if said != "" {
			body := fmt.Sprintf(`{"id":%d,"input":{},"status":"%s","loc":"/d/<1>","pid":7,"killed":%t}`, i+1, said, said == Killed)
			rows = append(rows, want{"GET", fmt.Sprintf("/retrieve/%d", i+1), 200, jsonMedia, body, ""})
		}
	}
	for _, row := range rows {
		row.check(t, ask(t, addr, row.method, row.path))
	}
	d.load = 2.5
	want{"GET", "/load", 200, jsonMedia, `2.5`, ""}.check(t, ask(t, addr, "GET", "/load"))
	d.killErr, d.resultErr, d.loadErr = errDisk, errDisk, errDisk
	want{"POST", "/kill/1", 500, "", "", ""}.check(t, ask(t, addr, "POST", "/kill/1"))
	want{"GET", "/retrieve/7", 500, jsonMedia, emptyPayload, ""}.check(t, ask(t, addr, "GET", "/retrieve/7"))
	want{"GET", "/load", 500, "", "", ""}.check(t, ask(t, addr, "GET", "/load"))
	d.payloadErr = errDisk
	want{"GET", "/retrieve/7", 500, jsonMedia, emptyPayload, ""}.check(t, ask(t, addr, "GET", "/retrieve/7"))
}

func TestAgentReportsMoreToOurs(t *testing.T) {
	d := newDesk(t, false)
	code := 3
	d.add(Payload{ID: 1, Status: Failed, Loc: "/d", Reason: "exit", Message: "it ended with 3", ExitCode: &code,
		Signal: "TERM", Instance: "i"})
	addr := listen(t, Agent(d, AgentOptions{Features: []string{"f"}}))
	want{"GET", "/retrieve/1", 200, jsonMedia, `{"id":1,"input":{},"status":"Failed","loc":"/d","pid":0,"killed":false,"reason":"exit",` +
		`"message":"it ended with 3","exit_code":3,"signal":"TERM","instance":"i"}`, ""}.check(t, ask(t, addr, "GET", "/retrieve/1"))
	want{"GET", "/health", 200, jsonMedia, `{"status":"ok","database":"ok","impl":"stagepost","features":["f"]}`, ""}.check(t, ask(t, addr, "GET", "/health"))
}

func TestSubmitRows(t *testing.T) {
	file := form(`name="run.sh"; filename="run.sh"`, "echo", `name="text"`, "ignored",
		`name*=utf-8''a%20b; filename="d/a b"`, "x")
	d := newDesk(t, false)
	addr := listen(t, Agent(d, AgentOptions{Compat: Strict, Limits: Limits{Body: 5000, Name: 20}}))
	loc := filepath.Join(d.data, "1700000001")
	want{"POST", "/submit", 200, jsonMedia, `{"id":1700000001,"input":{},"status":"Prepared","loc":"` + loc + `","pid":0,"killed":false}`, ""}.
		check(t, post(t, addr, "/submit", file))
	if diff := cmp.Diff(map[string]string{"run.sh": "echo", "a b": "x"}, d.payloads[1700000001].files); diff != "" {
		t.Error(diff)
	}
	bad := want{"POST", "/submit", 400, jsonMedia, emptyPayload, ""}
	for _, broken := range []string{"", "--BB--\r\n", form(`name="text"`, "only"),
		strings.TrimSuffix(file, "--BB--\r\n")[:120],
		form(`name="f"; filename="`+strings.Repeat("n", 21)+`"`, "x"), form(`name="f"; filename="f"`,
			strings.Repeat("x", 5000))} {
		bad.check(t, post(t, addr, "/submit", broken))
	}
	want{"POST", "/submit", 400, textMedia, "Invalid `boundary` for `multipart/form-data` request", ""}.check(t, ask(t, addr, "POST", "/submit"))
	d.fileErr = errDisk
	want{"POST", "/submit", 500, jsonMedia, emptyPayload, ""}.check(t, post(t, addr, "/submit", file))
	d.beginErr = Busy("draining")
	want{"POST", "/submit", 503, jsonMedia, emptyPayload, ""}.check(t, post(t, addr, "/submit", file))
	if d.open != 0 || len(d.payloads) != 1 {
		t.Errorf("%d submissions are left open, %d payloads", d.open, len(d.payloads))
	}
}

func TestPayloadToken(t *testing.T) {
	d := newDesk(t, false)
	addr := listen(t, Agent(d, AgentOptions{}))
	g := post(t, addr, "/submit", form(`name="run.sh"; filename="run.sh"`, "echo"), TokenHeader+": secret",
		"Idempotency-Key: k")
	if g.Code != 200 || strings.Contains(g.Body, "secret") {
		t.Fatal(g)
	}
	for _, c := range []struct {
		code   int
		header []string
	}{{404, nil}, {404, []string{TokenHeader + ": other"}}, {200, []string{TokenHeader + ": secret"}}} {
		for _, call := range [][2]string{{"GET", "/retrieve/1700000001"}, {"POST", "/kill/1700000001"}} {
			if g := ask(t, addr, call[0], call[1], c.header...); g.Code != c.code {
				t.Errorf("%v with %q: %v", call, c.header, g)
			}
		}
	}
}

func TestAgentAsksWho(t *testing.T) {
	d := newDesk(t, false)
	d.add(Payload{ID: 1, Status: Running})
	addr := listen(t, Agent(d, AgentOptions{Who: func(r *http.Request) error {
		if r.Header.Get("Authorization") != "Bearer ok" {
			return errDisk
		}
		return nil
	}}))
	for _, call := range [][2]string{{"GET", "/retrieve/1"}, {"GET", "/retrieve/2"}, {"POST", "/kill/1"},
		{"POST", "/submit"}, {"GET", "/load"}, {"GET", "/retrieve_partial/1"}} {
		want{call[0], call[1], 401, jsonMedia, emptyPayload, ""}.check(t, ask(t, addr, call[0], call[1]))
	}
	if g := ask(t, addr, "GET", "/retrieve/1", "Authorization: Bearer ok"); g.Code != 200 {
		t.Error(g)
	}
}
