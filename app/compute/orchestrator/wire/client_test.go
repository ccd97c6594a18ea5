package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
)

func caller(t testing.TB, base string, o wire.ClientOptions) *wire.Client {
	t.Helper()
	e, err := wire.AgentAt(base)
	if err != nil {
		t.Fatal(err)
	}
	c, err := wire.NewClient(e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func file(name, data string) wire.File {
	return wire.File{Name: name, Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(data)), nil
	}}
}

const script = "#!/bin/bash\ntrap 'echo $? > .orchestrator.exit' EXIT\n"

func TestSubmitToAnOriginal(t *testing.T) {
	fake := wiretest.Client(t, wiretest.ClientOptions{Run: func(ctx context.Context, _ string) int {
		<-ctx.Done()
		return wiretest.Dead
	}})
	c := caller(t, fake.URL, wire.ClientOptions{})
	big := strings.Repeat("0123456789\r\n", 50_000)
	p, err := c.Submit(t.Context(), []wire.File{file("run.sh", script), file("a b%22c.txt", ""), file("big", big),
		file(`q"\`, "q")}, "key")
	if err != nil || p.ID != 1 || p.Status != wire.Prepared || p.Loc == "" {
		t.Fatal(p, err)
	}
	sub := fake.Submissions()[0]
	if diff := cmp.Diff(map[string]string{"run.sh": script, "a b%22c.txt": "", "big": big, `q"\`: "q"},
		sub.Files); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"run.sh", "", "big", ""}, sub.Fields); diff != "" {
		// the others have name* in place of name
		t.Error(diff)
	}
	if sub.Length < 600_000 || sub.Header.Get("Accept") != "*/*" || sub.Header.Get("User-Agent") != "" ||
		sub.Header.Get("Accept-Encoding") != "" {
		t.Errorf("length %d, headers %v", sub.Length, sub.Header)
	}
}

// The form is that of the original, byte for byte but for the boundary.
func TestSubmitBytes(t *testing.T) {
	var got []byte
	var head http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		head = r.Header
		io.WriteString(w, `{"id":42,"input":{},"status":"Prepared","loc":"/d/42","pid":0,"killed":false}`)
	}))
	defer s.Close()
	p, err := caller(t, s.URL, wire.ClientOptions{}).Submit(t.Context(), []wire.File{file("run.sh", "echo\n"),
		file("a b%22c.txt", "x")}, "")
	if err != nil || p.ID != 42 {
		t.Fatal(p, err)
	}
	boundary := strings.TrimPrefix(head.Get("Content-Type"), "multipart/form-data; boundary=")
	want := strings.ReplaceAll("--B\r\nContent-Disposition: form-data; name=\"run.sh\"; filename=\"run.sh\"\r\n\r\necho\n\r\n"+
		"--B\r\nContent-Disposition: form-data; name*=utf-8''a%20b%2522c.txt; filename=\"a b%22c.txt\"\r\n\r\nx\r\n--B--\r\n", "--B", "--"+boundary)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	for name := range head {
		switch name {
		case "Content-Type", "Content-Length", "Accept", "Connection":
		default:
			t.Errorf("an unexpected header %s", name)
		}
	}
}

func TestCallsToAnOriginal(t *testing.T) {
	finish := make(chan int)
	fake := wiretest.Client(t, wiretest.ClientOptions{Run: func(ctx context.Context, dir string) int {
		os.WriteFile(dir+"/out.txt", []byte("partial data"), 0o644)
		select {
		case code := <-finish:
			return code
		case <-ctx.Done():
			return wiretest.Dead
		}
	}})
	c := caller(t, fake.URL+"/", wire.ClientOptions{})
	ctx := t.Context()
	if h, err := c.Health(ctx); err != nil || !h.Legacy || h.Impl != "" {
		t.Error(h, err)
	}
	if load, err := c.Load(ctx); err != nil || load != 2.5 {
		t.Error(load, err)
	}
	for name, err := range map[string]error{"retrieve": second(c.Retrieve(ctx, 9999)),
		"partial": second(c.Partial(ctx, 9999)), "kill": c.Kill(ctx, 9999)} {
		if !errors.Is(err, wire.ErrNotFound) || errors.Is(err, wire.ErrLost) {
			t.Errorf("%s of what there is not: %v", name, err)
		}
	}
	p, err := c.Submit(ctx, []wire.File{file("run.sh", script)}, "")
	if err != nil {
		t.Fatal(err)
	}
	fake.Await("it runs", func() bool { return fake.Status(p.ID) == "Running" })
	if r, err := c.Retrieve(ctx, p.ID); err != nil || r.ZIP != nil || r.Payload.Status != wire.Running ||
		r.Payload.ID != p.ID {
		t.Error(r, err)
	}
	part, err := c.Partial(ctx, p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(part); err != nil || !bytes.HasPrefix(data, []byte("PK")) ||
		part.Size != int64(len(data)) || part.Close() != nil {
		t.Errorf("%d bytes of %d: %v", len(data), part.Size, err)
	}
	finish <- 0
	fake.Await("it has ended", func() bool { return fake.Status(p.ID) == "Completed" })
	r, err := c.Retrieve(ctx, p.ID)
	if err != nil || r.ZIP == nil {
		t.Fatal(r, err)
	}
	if data, err := io.ReadAll(r.ZIP); err != nil || !bytes.HasPrefix(data, []byte("PK")) {
		t.Error(err)
	}
	r.ZIP.Close()
	if err := c.Kill(ctx, p.ID); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestHealthOfOurs(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"status":"ok","database":"ok","impl":"stagepost","features":["a","b"]}`)
	}))
	defer s.Close()
	h, err := caller(t, s.URL, wire.ClientOptions{}).Health(t.Context())
	if diff := cmp.Diff(wire.Health{Impl: "stagepost", Features: []string{"a", "b"}}, h); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// Each way of failing of a submission reports whether the agent may have the job.
func TestSubmitFailures(t *testing.T) {
	// what is sent at all is sent by then, on slow machines too
	short := wire.ClientOptions{Header: time.Second, Idle: time.Second}
	files := []wire.File{file("run.sh", script)}
	shrunk := wire.File{Name: "shrunk", Size: 100, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("x")), nil
	}}
	grown := wire.File{Name: "grown", Size: 1, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("xyz")), nil
	}}
	gone := wire.File{Name: "gone", Size: 1, Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }}
	for _, c := range []struct {
		name    string
		prepare func(*wiretest.FakeClient)
		files   []wire.File
		kind    error
		taken   int // submissions that the agent has
	}{
		{"nothing listens", func(f *wiretest.FakeClient) { f.Down() }, files, wire.ErrNotSent, 0},
		{"no files", nil, nil, wire.ErrNotSent, 0},
		{"a path for a name", nil, []wire.File{file("a/b", "")}, wire.ErrNotSent, 0},
		{"a file shrinks", nil, []wire.File{shrunk}, wire.ErrNotSent, 0},
		{"a file grows", nil, []wire.File{grown, file("z", strings.Repeat("z", 1<<20))}, wire.ErrNotSent, 0},
		{"a file is gone", nil, []wire.File{gone}, wire.ErrNotSent, 0},
		{"the answer is lost", func(f *wiretest.FakeClient) {
			f.Break(wiretest.Fault{Path: "/submit", Lose: true})
		}, files, wire.ErrLost, 1},
		{"no answer", func(f *wiretest.FakeClient) {
			f.Break(wiretest.Fault{Path: "/submit", Hang: true})
		}, files, wire.ErrLost, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fake := wiretest.Client(t, wiretest.ClientOptions{})
			if c.prepare != nil {
				c.prepare(fake)
			}
			_, err := caller(t, fake.URL, short).Submit(t.Context(), c.files, "key")
			other := wire.ErrLost
			if c.kind == wire.ErrLost {
				other = wire.ErrNotSent
			}
			if !errors.Is(err, c.kind) || errors.Is(err, other) {
				t.Errorf("%v is not: %v", err, c.kind)
			}
			if n := len(fake.Submissions()); n != c.taken {
				t.Errorf("the agent has it %d times, want %d", n, c.taken)
			}
			posts := 0
			for _, r := range fake.Requests() {
				if r == "POST /submit" {
					posts++
				}
			}
			if posts > 1 {
				t.Errorf("it was sent %d times", posts)
			}
		})
	}
}

// A refusal is neither lost nor unsent; a gateway's is, since it implies nothing about the agent.
func TestSubmitRefused(t *testing.T) {
	answer := func(code int, body string) error {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(code)
			io.WriteString(w, body)
		}))
		defer s.Close()
		_, err := caller(t, s.URL, wire.ClientOptions{}).Submit(t.Context(), []wire.File{file("run.sh", script)}, "")
		return err
	}
	for _, code := range []int{302, 400, 404, 500, 503} {
		err := answer(code, "Internal Server Error")
		refused, ok := errors.AsType[*wire.StatusError](err)
		if !ok || refused.Code != code || refused.Body != "Internal Server Error" || errors.Is(err, wire.ErrLost) ||
			errors.Is(err, wire.ErrNotSent) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if err := answer(502, ""); !errors.Is(err, wire.ErrLost) {
		t.Errorf("a gateway: %v", err)
	}
	for _, body := range []string{"not valid json", `{"id":1}`, ""} {
		err := answer(200, body)
		if _, ok := errors.AsType[*wire.AnswerError](err); !ok || !errors.Is(err, wire.ErrLost) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// A connection that breaks while the form goes out cannot have delivered a job.
func TestSubmitBreaksOff(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		io.ReadFull(conn, make([]byte, 2000))
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}()
	_, err = caller(t, "http://"+l.Addr().String(), wire.ClientOptions{}).Submit(t.Context(),
		[]wire.File{file("big", strings.Repeat("x", 50<<20))}, "")
	if !errors.Is(err, wire.ErrNotSent) || errors.Is(err, wire.ErrLost) {
		t.Error(err)
	}
}

// An agent that stops reading is left after a while, and so is a context that ends.
func TestSubmitToADeafAgent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections, nothing reads
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	big := []wire.File{file("big", strings.Repeat("x", 50<<20))}
	c := caller(t, "http://"+l.Addr().String(), wire.ClientOptions{Idle: 100 * time.Millisecond})
	if _, err := c.Submit(t.Context(), big, ""); !errors.Is(err, wire.ErrNotSent) ||
		!strings.Contains(err.Error(), "silent for too long") {
		t.Error(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	c = caller(t, "http://"+l.Addr().String(), wire.ClientOptions{})
	if _, err := c.Submit(ctx, big, ""); !errors.Is(err, wire.ErrNotSent) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestRetrieveFailures(t *testing.T) {
	fake := wiretest.Client(t, wiretest.ClientOptions{Run: func(context.Context, string) int { return 0 }})
	c := caller(t, fake.URL, wire.ClientOptions{Pack: time.Second, Idle: time.Second})
	p, err := c.Submit(t.Context(), []wire.File{file("run.sh", script), file("big", strings.Repeat("x", 10_000))}, "")
	if err != nil {
		t.Fatal(err)
	}
	fake.Await("it has ended", func() bool { return fake.Status(p.ID) == "Completed" })
	read := func(f wiretest.Fault) (int, error) {
		fake.Break(f)
		defer fake.Heal()
		r, err := c.Retrieve(t.Context(), p.ID)
		if err != nil {
			return 0, err
		}
		defer r.ZIP.Close()
		data, err := io.ReadAll(r.ZIP)
		return len(data), err
	}
	if _, err := read(wiretest.Fault{Path: "/retrieve/", Hang: true}); !errors.Is(err, wire.ErrLost) ||
		!strings.Contains(err.Error(), "silent") {
		t.Errorf("hang: %v", err)
	}
	if _, err := read(wiretest.Fault{Path: "/retrieve/", Code: 500}); err == nil || errors.Is(err, wire.ErrLost) {
		t.Errorf("500: %v", err)
	}
	if n, err := read(wiretest.Fault{Path: "/retrieve/", Break: 40}); !errors.Is(err, io.ErrUnexpectedEOF) || n != 40 {
		t.Errorf("a connection that breaks: %d bytes, %v", n, err)
	}
	if n, err := read(wiretest.Fault{Path: "/retrieve/", Cut: 40}); err != nil || n != 40 {
		t.Errorf("a ZIP that is cut inside seems whole here: %d bytes, %v", n, err)
	}
	if n, err := read(wiretest.Fault{Path: "/elsewhere", Code: 500}); err != nil || n < 100 {
		t.Errorf("the control: %d bytes, %v", n, err)
	}
	fake.Wipe()
	if _, err := c.Retrieve(t.Context(), p.ID); !errors.Is(err, wire.ErrNotFound) {
		t.Errorf("after the database was lost: %v", err)
	}
}

func TestRetrieveMisread(t *testing.T) {
	for _, c := range []struct {
		code        int
		media, body string
		ok          bool
	}{
		{200, "application/zip", "PK", true},
		{200, "Application/ZIP; x=y", "PK", true},
		{206, "application/zip", "PK", false},
		{200, "text/plain", "hello", false},
		{200, "application/json", `{"id":1,"input":{},"status":"Sleeping","loc":"","pid":0,"killed":false}`, false},
		{202, "application/json", `{"id":1,"input":{},"status":"Running","loc":"","pid":0,"killed":false}`, true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", c.media)
			w.WriteHeader(c.code)
			io.WriteString(w, c.body)
		}))
		r, err := caller(t, s.URL, wire.ClientOptions{}).Retrieve(t.Context(), 1)
		if (err == nil) != c.ok {
			t.Errorf("%d %s %s: %v", c.code, c.media, c.body, err)
		}
		if r.ZIP != nil {
			r.ZIP.Close()
		}
		if _, err := caller(t, s.URL, wire.ClientOptions{}).Partial(t.Context(),
			1); (err == nil) != (c.ok && strings.Contains(strings.ToLower(c.media), "zip")) {
			t.Errorf("partial %d %s: %v", c.code, c.media, err)
		}
		s.Close()
	}
}

// A result whose sender stops answering is left; one that comes slowly but steadily is not.
func TestRetrieveIdle(t *testing.T) {
	quiet := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "PK")
		http.NewResponseController(w).Flush()
		<-quiet
	}))
	defer s.Close()
	defer close(quiet)
	r, err := caller(t, s.URL, wire.ClientOptions{Idle: 50 * time.Millisecond}).Retrieve(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.ZIP.Close()
	if _, err := io.ReadAll(r.ZIP); err == nil || !strings.Contains(err.Error(), "silent for too long") {
		t.Error(err)
	}
}

func TestClientAddresses(t *testing.T) {
	var paths []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.RequestURI)
		w.WriteHeader(404)
	}))
	defer s.Close()
	for _, slash := range []string{"", "/"} {
		paths = nil
		c, err := wire.NewClient(wire.Endpoints{Upload: s.URL + "/x/submit" + slash,
			Download: s.URL + "/y/retrieve" + slash, Terminate: s.URL + "/z/kill" + slash},
			wire.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		c.Submit(ctx, []wire.File{file("run.sh", "")}, "")
		c.Retrieve(ctx, 42)
		c.Partial(ctx, 42)
		c.Kill(ctx, 42)
		c.Load(ctx)
		c.Health(ctx)
		c.Close()
		want := []string{"POST /x/submit" + slash, "GET /y/retrieve/42", "GET /y/retrieve_partial/42",
			"POST /z/kill/42", "GET /x/load", "GET /x/health"}
		if diff := cmp.Diff(want, paths); diff != "" {
			t.Error(diff)
		}
	}
	for _, bad := range []string{"", "host:9000", "ftp://h/", "http://", "http://h/#x", "http://user:secret@h:x/"} {
		_, err := wire.NewClient(wire.Endpoints{Upload: bad, Download: "http://h/r", Terminate: "http://h/k"},
			wire.ClientOptions{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := wire.NewClient(wire.Endpoints{}, wire.ClientOptions{}); err == nil ||
		strings.Count(err.Error(), "address") != 3 {
		t.Errorf("all mistakes at once: %v", err)
	}
}

func ExampleAgentAt() {
	e, _ := wire.AgentAt("http://agent:9000")
	fmt.Println(e.Upload, e.Download, e.Terminate)
	// Output: http://agent:9000/submit http://agent:9000/retrieve http://agent:9000/kill
}
