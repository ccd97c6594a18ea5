package wire

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
)

func entries(t testing.TB, data []byte) []string {
	t.Helper()
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

func output(t testing.TB, s *wiretest.FakeServer, id uint32) []string {
	t.Helper()
	data, err := os.ReadFile(s.Output(id))
	if err != nil {
		t.Fatal(err)
	}
	return entries(t, data)
}

func fakeServer(t testing.TB, base string) *wiretest.FakeServer {
	return wiretest.Server(t,
		wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(base)}})
}

const progress = "#!/bin/bash\n" + trapLine + "echo 1 > progress.txt\nwhile [ ! -e go ]; do sleep 0.01; done\necho 2 >> progress.txt\n"

// An original server drives our agent: results, failure, cancelling and partial results.
func TestOriginalServerWithOurAgent(t *testing.T) {
	d := newDesk(t, true)
	s := fakeServer(t, "http://"+listen(t, Agent(d, AgentOptions{})))
	good := s.Submit(1, "example", map[string]string{"run.sh": "echo out > out.txt", "a b%22c.txt": "x"})
	bad := s.Submit(2, "example", map[string]string{"run.sh": "exit 3"})
	long := s.Submit(3, "example", map[string]string{"run.sh": progress})
	empty := s.Submit(4, "example", nil)
	s.Await(good, "Completed")
	if diff := cmp.Diff([]string{"a b%22c.txt", "out.txt", "run.sh"}, output(t, s, good)); diff != "" {
		t.Error(diff)
	}
	s.Await(bad, "Failed")
	s.Await(empty, "Failed") // the agent refuses an empty form, as the original does
	s.Await(long, "Running")
	for names := []string{}; !slices.Contains(names, "progress.txt"); {
		res, err := http.Get(fmt.Sprintf("%s/download_partial/%d", s.URL, long))
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(res.Body)
		res.Body.Close()
		names = entries(t, data)
	}
	res, err := http.Post(fmt.Sprintf("%s/terminate/%d", s.URL, long), "", nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	res.Body.Close()
	if word := s.Await(long, "Killed"); word != "Killed" {
		t.Error(word)
	}
	for _, id := range []uint32{good, bad, long} {
		for _, word := range s.Words(id) {
			if word == "Queued" || word == "Unknown" {
				t.Errorf("job %d was reported to be %s", id, word)
			}
		}
		if _, dest := s.Job(id); dest < 1_700_000_000 {
			t.Errorf("job %d has the id %d at the agent", id, dest)
		}
	}
}

// bridge is a server of one service over a client: enough to serve users from an agent of the original.
type bridge struct {
	*board
	c    *Client
	mu   sync.Mutex
	dest map[uint32]uint32
	zips map[uint32][]byte
}

type bridgeUpload struct {
	*boardUpload
	b *bridge
}

func (b *bridge) Begin(ctx context.Context) (Upload, error) {
	u, err := b.board.Begin(ctx)
	return bridgeUpload{u.(*boardUpload), b}, err
}

func (u bridgeUpload) Commit(ctx context.Context, user int32, service string) (uint32, error) {
	id, err := u.boardUpload.Commit(ctx, user, service)
	if err != nil {
		return 0, err
	}
	var files []File
	for name, data := range u.j.files {
		if name == "run.sh" {
			data = string(policy.InjectTrap([]byte(data)))
		}
		files = append(files, File{name, int64(len(data)), func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(data)), nil
		}})
	}
	p, err := u.b.c.Submit(ctx, files, "")
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	u.b.dest[id] = p.ID
	return id, err
}

func (b *bridge) Job(ctx context.Context, id uint32) (View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dest, ok := b.dest[id]
	if !ok {
		return View{}, ErrNotFound
	}
	if b.zips[id] != nil {
		return View{Status: Completed}, nil
	}
	r, err := b.c.Retrieve(ctx, dest)
	if err != nil || r.ZIP == nil {
		return View{Status: r.Payload.Status}, err
	}
	defer r.ZIP.Close()
	b.zips[id], err = io.ReadAll(r.ZIP)
	return View{Status: Completed}, err
}

func (b *bridge) Result(_ context.Context, id uint32) (Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Result{File: seeker{bytes.NewReader(b.zips[id])}}, nil
}

func (b *bridge) Partial(ctx context.Context, id uint32, w func() io.Writer) error {
	b.mu.Lock()
	dest := b.dest[id]
	b.mu.Unlock()
	a, err := b.c.Partial(ctx, dest)
	if err != nil {
		return err
	}
	defer a.Close()
	_, err = io.Copy(w(), a)
	return err
}

func (b *bridge) Terminate(ctx context.Context, id uint32) (Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return "", b.c.Kill(ctx, b.dest[id])
}

// Users of ours drive an original agent.
func TestOurServerWithAnOriginalAgent(t *testing.T) {
	fake := wiretest.Client(t, wiretest.ClientOptions{})
	e, err := AgentAt(fake.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewClient(e, ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addr := listen(t, Users(&bridge{board: newBoard(), c: c, dest: map[uint32]uint32{}, zips: map[uint32][]byte{}},
		Options{Compat: Strict}))
	upload := func(id int, script string) {
		t.Helper()
		var b bytes.Buffer
		m := multipart.NewWriter(&b)
		w, _ := m.CreateFormFile("file", "run.sh")
		io.WriteString(w, script)
		m.WriteField("user_id", "1")
		m.WriteField("service", "example")
		m.Close()
		res, err := http.Post("http://"+addr+"/upload", m.FormDataContentType(), &b)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if body, _ := io.ReadAll(res.Body); res.StatusCode != 201 ||
			string(body) != statusBody(id, "Queued", uploaded) {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	until := func(word string, id uint32) {
		t.Helper()
		fake.Await(word, func() bool { return fake.Status(id) == word })
	}
	upload(1, "#!/bin/bash\ncd /tmp\nexit 0\n") // without the trap of its own
	until("Completed", 1)
	g := ask(t, addr, "GET", "/download/1")
	if diff := cmp.Diff([]string{".orchestrator.exit", "output.zip", "run.sh"},
		entries(t, []byte(g.Body))); g.Code != 200 || diff != "" {
		t.Error(g.Code, diff)
	}
	upload(2, "exit 5")
	until("Failed", 2)
	want{"GET", "/download/2", 200, jsonMedia, statusBody(2, "Failed", ""), ""}.check(t,
		ask(t, addr, "GET", "/download/2"))
	upload(3, "sudo true")
	until("Invalid", 3)
	want{"GET", "/download/3", 200, jsonMedia, statusBody(3, "Invalid", ""), ""}.check(t,
		ask(t, addr, "GET", "/download/3"))
	upload(4, progress)
	until("Running", 4)
	for names := []string{}; !slices.Contains(names, "progress.txt"); {
		names = entries(t, []byte(ask(t, addr, "GET", "/download_partial/4").Body))
	}
	want{"POST", "/terminate/4", 200, jsonMedia, statusBody(4, "Unknown", "job terminated"), ""}.check(t,
		ask(t, addr, "POST", "/terminate/4"))
	until("Killed", 4)
	want{"GET", "/download/4", 200, jsonMedia, statusBody(4, "Killed", ""), ""}.check(t,
		ask(t, addr, "GET", "/download/4"))
}

// The fakes keep the original's faults.
func TestFakesAreFaithful(t *testing.T) {
	fake := wiretest.Client(t, wiretest.ClientOptions{Run: func(_ context.Context, dir string) int {
		name, _ := os.ReadFile(dir + "/run.sh")
		os.WriteFile(dir+"/out.txt", name, 0o644)
		switch string(name) {
		case "dead":
			return wiretest.Dead
		case "bad":
			return 1
		}
		return 0
	}})
	s := fakeServer(t, fake.URL)
	job := func(script string) uint32 { return s.Submit(1, "example", map[string]string{"run.sh": script}) }

	first := job("one")
	s.Await(first, "Completed")
	if diff := cmp.Diff([]string{".orchestrator.exit", "out.txt", "output.zip", "run.sh"},
		output(t, s, first)); diff != "" {
		t.Error(diff)
	}
	s.Await(job("bad"), "Failed")

	fake.Leftover(2) // 500 first, then what was written so far as the whole
	left := job("left")
	s.Await(left, "Completed")
	if diff := cmp.Diff([]string{".orchestrator.exit", "out.txt"}, output(t, s, left)); diff != "" {
		t.Error(diff)
	}

	dead := job("dead")
	s.Await(dead, "Running")
	polls := len(fake.Requests())
	fake.Await("more polls", func() bool { return len(fake.Requests()) > polls+10 })
	if word, _ := s.Job(dead); word != "Running" {
		t.Errorf("a dead process is %s", word)
	}

	fake.Break(wiretest.Fault{Path: "/submit", Lose: true, Times: 1})
	taken := len(fake.Submissions())
	s.Await(job("lost"), "Failed")
	if len(fake.Submissions()) != taken+1 {
		t.Error("the client does not have the job whose answer was lost")
	}
	fake.Break(wiretest.Fault{Path: "/submit", Code: 500, Times: 1})
	s.Await(job("refused"), "Failed")
	s.Await(job("again"), "Completed")

	fake.Down()
	s.Await(job("down"), "Failed")
	fake.Up()
	s.Await(job("up"), "Completed")

	res, err := http.Post(fmt.Sprintf("%s/terminate/%d", s.URL, first), "", nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	res.Body.Close()
	s.Await(first, "Killed") // the results of a completed job are lost

	fake.Break(wiretest.Fault{Path: "/submit", Hang: true})
	submits := func() (n int) {
		for _, r := range fake.Requests() {
			if r == "POST /submit" {
				n++
			}
		}
		return n
	}
	before := submits()
	hung := job("hung")
	fake.Await("the submission hangs", func() bool { return submits() > before })
	if word, _ := s.Job(hung); word != "Processing" {
		t.Errorf("a job that hangs is %s", word)
	}
	fake.Heal()
	s.Await(hung, "Failed")

	fake.Wipe() // the next payload is 1 again, and the job that asks for 1 gets its result
	s.Await(job("other"), "Completed")
	if _, dest := s.Job(first); dest != 1 || fake.Status(1) != "Completed" {
		t.Error("ids do not begin again")
	}
}

// The same requests to the fakes and to our strict handlers have the same answers, so that two readings of the
// description agree.
func TestSameAsTheFakes(t *testing.T) {
	s := wiretest.Server(t,
		wiretest.ServerOptions{
			Services: map[string]wiretest.Service{"example": wiretest.ServiceAt("http://127.0.0.1:1")}})
	fake := strings.TrimPrefix(s.URL, "http://")
	for _, c := range []struct{ method, path, form string }{
		{"GET", "/", ""}, {"GET", "/health", ""}, {"GET", "/download/9", ""}, {"GET", "/download/abc", ""}, {"GET",
			"/download/4294967296", ""},
		{"POST", "/terminate/9", ""}, {"GET", "/download_partial/9", ""}, {"POST", "/upload", withFile(fields...)},
		{"POST", "/upload", withFile()},
		{"POST", "/upload", withFile(`name="user_id"`, "x")}, {"POST", "/upload", withFile(`name="user_id"`, "1")},
		{"POST", "/upload", "broken"},
		{"POST", "/upload", withFile(`name="user_id"`, "1", `name="service"`, "other")},
	} {
		send := func(addr string) got {
			if c.form != "" {
				return post(t, addr, c.path, c.form)
			}
			return ask(t, addr, c.method, c.path)
		}
		theirs, ours := send(fake), send(listen(t, Users(newBoard(), Options{Compat: Strict})))
		theirs.Header.Del("Date")
		ours.Header.Del("Date")
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.path, diff)
		}
	}
	agent := strings.TrimPrefix(wiretest.Client(t, wiretest.ClientOptions{Trust: true}).URL, "http://")
	for _, c := range []struct{ method, path, form string }{
		{"GET", "/", ""}, {"GET", "/health", ""}, {"GET", "/retrieve/9", ""}, {"GET", "/retrieve/abc", ""}, {"GET",
			"/retrieve_partial/9", ""},
		{"POST", "/kill/9", ""}, {"POST", "/submit", form()}, {"POST", "/submit", "broken"}, {"POST", "/submit",
			form(`name="x"`, "y")},
	} {
		send := func(addr string) got {
			if c.form != "" {
				return post(t, addr, c.path, c.form)
			}
			return ask(t, addr, c.method, c.path)
		}
		theirs, ours := send(agent), send(listen(t, Agent(newDesk(t, false), AgentOptions{Compat: Strict})))
		theirs.Header.Del("Date")
		ours.Header.Del("Date")
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.path, diff)
		}
	}
}

const trapLine = "trap 'echo $? > .orchestrator.exit' EXIT\n"
