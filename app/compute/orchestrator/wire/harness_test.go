package wire

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// board is a small server of jobs in memory.
type board struct {
	mu       sync.Mutex
	jobs     map[uint32]*boardJob
	next     uint32
	open     int // uploads that are neither committed nor discarded
	services []string
	keys     map[string]uint32

	beginErr, fileErr, commitErr, jobErr, resultErr, terminateErr, healthErr error

	partial func(w func() io.Writer) error
}

type boardJob struct {
	view    View
	files   map[string]string
	order   []string
	user    int32
	service string
	owner   string
	zip     []byte
}

func newBoard() *board {
	return &board{jobs: map[uint32]*boardJob{}, services: []string{"example"}, keys: map[string]uint32{}}
}

type boardUpload struct {
	b    *board
	j    *boardJob
	done bool
	key  string
	old  bool // Commit found the job of an earlier request
}

func (b *board) Begin(ctx context.Context) (Upload, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.beginErr != nil {
		return nil, b.beginErr
	}
	b.open++
	c, _ := CallerOf(ctx)
	return &boardUpload{b: b, j: &boardJob{files: map[string]string{}, owner: c.Owner}}, nil
}

func (u *boardUpload) Key(key string) error {
	u.key = key
	return nil
}

func (u *boardUpload) Replayed() bool { return u.old }

func (u *boardUpload) File(name string, r io.Reader) error {
	if u.b.fileErr != nil {
		return u.b.fileErr
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	u.j.files[name] = string(data)
	u.j.order = append(u.j.order, name)
	return nil
}

func (u *boardUpload) Commit(_ context.Context, user int32, service string) (uint32, error) {
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	if u.b.commitErr != nil {
		return 0, u.b.commitErr
	}
	known := false
	for _, s := range u.b.services {
		known = known || s == service
	}
	if !known {
		return 0, fmt.Errorf("%q: %w", service, ErrService)
	}
	if id, again := u.b.keys[u.key]; again {
		u.old = true
		return id, nil
	}
	u.b.next++
	u.j.user, u.j.service, u.j.view = user, service, View{Status: Queued, Owner: u.j.owner}
	u.b.jobs[u.b.next] = u.j
	if u.key != "" {
		u.b.keys[u.key] = u.b.next
	}
	u.done = true
	u.b.open--
	return u.b.next, nil
}

func (u *boardUpload) Discard() {
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	if !u.done {
		u.done = true
		u.b.open--
	}
}

func (b *board) Job(_ context.Context, id uint32) (View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.jobErr != nil {
		return View{}, b.jobErr
	}
	if j := b.jobs[id]; j != nil {
		return j.view, nil
	}
	return View{}, ErrNotFound
}

type seeker struct{ *bytes.Reader }

func (seeker) Close() error { return nil }

func (b *board) Result(_ context.Context, id uint32) (Result, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.resultErr != nil {
		return Result{}, b.resultErr
	}
	zip := b.jobs[id].zip
	return Result{seeker{bytes.NewReader(zip)}, int64(len(zip)), "abc", time.Unix(1700000000, 0)}, nil
}

func (b *board) Partial(_ context.Context, _ uint32, w func() io.Writer) error { return b.partial(w) }

func (b *board) Terminate(_ context.Context, id uint32) (Status, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.terminateErr != nil {
		return "", b.terminateErr
	}
	j := b.jobs[id]
	if j.view.Status.Ended() {
		return j.view.Status, nil
	}
	j.view.Status = Killed
	return "", nil
}

func (b *board) Health(context.Context) error { return b.healthErr }

// add puts a job on the board.
func (b *board) add(v View) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	b.jobs[b.next] = &boardJob{view: v, zip: []byte("PK\x05\x06" + strings.Repeat("\x00", 18))}
	return b.next
}

func (b *board) opened() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// listen serves h over TCP and gives the address.
func listen(t testing.TB, h http.Handler) string {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// got is an answer as it came over the wire.
type got struct {
	Code   int
	Header http.Header
	Body   string
}

// raw writes a request as it stands and reads one answer.
func raw(t testing.TB, addr, request string) got {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	go io.WriteString(conn, request) // an answer may come before all is read
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.60q: %v", request, err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		body = append(body, "<"+err.Error()+">"...)
	}
	return got{res.StatusCode, res.Header, string(body)}
}

// ask makes a request without a body.
func ask(t testing.TB, addr, method, path string, headers ...string) got {
	t.Helper()
	return raw(t, addr, method+" "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+lines(headers)+"\r\n")
}

func lines(headers []string) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String()
}

// post makes a request with a form as its body.
func post(t testing.TB, addr, path, form string, headers ...string) got {
	t.Helper()
	return raw(t, addr, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: multipart/form-data; boundary=BB\r\n"+
		"Content-Length: %d\r\n%s\r\n%s", path, len(form), lines(headers), form))
}

// form joins parts, each a disposition and a value.
func form(parts ...string) string {
	var b strings.Builder
	for i := 0; i < len(parts); i += 2 {
		b.WriteString("--BB\r\nContent-Disposition: form-data; " + parts[i] + "\r\n\r\n" + parts[i+1] + "\r\n")
	}
	return b.String() + "--BB--\r\n"
}

var errDisk = errors.New("the disk at /secret is broken")

func statusBody(id int, status, message string) string {
	return fmt.Sprintf(`{"id":%d,"status":"%s","message":"%s"}`, id, status, message)
}
