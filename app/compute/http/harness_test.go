package computehttp_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// computing is a server whose jobs run at a puppet: a payload does what the test defines.
type computing struct {
	*servertest.Harness
	app    *compute.App
	puppet *puppet
	tus    *tus.Store
}

// options are those of the server and those of the routes of compute.
type options struct {
	*server.Options
	routes
	before []servertest.PartOf // parts before that of compute
}

// routes are an embedded field of a name of its own.
type routes = *computehttp.Options

// twoServices are a small one, for which few may run, and a wide one.
var twoServices = []compute.Service{
	{Name: "small", RunsPerUser: 1, MaxRuns: 1, Max: compute.Limits{Memory: 1 << 30, Wall: time.Hour}},
	{Name: "wide", RunsPerUser: 50, MaxRuns: 100, Limits: compute.Limits{Wall: time.Minute}},
}

func openCompute(t *testing.T, change func(*compute.Options, *options)) *computing {
	t.Helper()
	return openWith(t, true, change)
}

// openWith is openCompute with or without resumable uploads.
func openWith(t *testing.T, resumable bool, change func(*compute.Options, *options)) *computing {
	t.Helper()
	o := compute.Options{Dir: t.TempDir(), Services: twoServices}
	so := options{&server.Options{}, &computehttp.Options{}, nil}
	if change != nil {
		change(&o, &so)
	}
	app, err := compute.New(o)
	if err != nil {
		t.Fatal(err)
	}
	works := append(app.Works(), engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true})
	e, err := engine.New(mem.New(), works, engine.Options{Deliver: app.Deliver()})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	uploads, err := tus.New(tus.Options{
		Dir: filepath.Join(o.Dir, "uploads"), Owner: func(r *http.Request) string {
			return server.OwnerOf(r.Context())
		}, Fail: computehttp.FailUpload(servertest.Discard),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the server
		if err := errors.Join(app.Close(), uploads.Close()); err != nil {
			t.Error(err)
		}
	})
	c := &computing{app: app, puppet: newPuppet(), tus: uploads}
	app.Join("puppet", c.puppet)
	so.Engine, so.Compute = e, app
	if resumable {
		so.ComputeUploads = tusStore{uploads}
	}
	c.Harness = servertest.Serve(t, *so.Options, append(so.before, func(w *servertest.Harness) server.Part {
		return computehttp.Part(w.Server, *so.routes)
	})...)
	c.Run()
	return c
}

// tusStore is the adapter that cmd has.
type tusStore struct{ *tus.Store }

func (s tusStore) Take(id, owner string) (computehttp.ComputeUpload, error) {
	u, err := s.Store.Take(id, owner)
	if err != nil {
		kind := job.Refused
		if errors.Is(err, tus.ErrNotFound) {
			kind = job.NotFound
		}
		return computehttp.ComputeUpload{}, job.Errorf(kind, "uploads", "", "%w", err)
	}
	return computehttp.ComputeUpload{Name: u.Name, Path: u.Path}, nil
}

// order submits an order with small files that must be taken.
func (c *computing) order(o client.ComputeOrder, files ...string) client.ComputeJob {
	c.T.Helper()
	if o.Service == "" {
		o.Service = "wide"
	}
	for i := 0; i < len(files); i += 2 {
		o.Files = append(o.Files, client.ComputeInline{Name: files[i], Text: files[i+1]})
	}
	if len(o.Files) == 0 && o.Command == nil {
		o.Command = &client.ComputeCommand{Words: []string{"true"}}
	}
	j, err := c.Client.SubmitCompute(c.T.Context(), o, nil, nil)
	if err != nil {
		c.T.Fatal(err)
	}
	return j
}

// ended waits until a job has ended, and gives it.
func (c *computing) ended(id job.ID) client.ComputeJob {
	c.T.Helper()
	return c.await(id, func(j *job.Job) bool { return j.Ended })
}

func (c *computing) await(id job.ID, is func(*job.Job) bool) client.ComputeJob {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), time.Minute)
	defer cancel()
	if j, err := c.Await(ctx, id, is); err != nil {
		c.T.Fatalf("%s stays in %s: %v", id, j.State, err)
	}
	j, err := c.Client.ComputeJob(c.T.Context(), id)
	if err != nil {
		c.T.Fatal(err)
	}
	return j
}

// runs waits until a job runs at the puppet.
func (c *computing) runs(id job.ID) *payload {
	c.T.Helper()
	c.await(id, func(j *job.Job) bool { return j.State == compute.Running || j.Ended })
	p := c.puppet.get(id)
	if p == nil {
		c.T.Fatalf("the puppet does not have %s", id)
	}
	return p
}

// finish runs a job to its end.
func (c *computing) finish(id job.ID, e compute.Ending, files ...string) client.ComputeJob {
	c.T.Helper()
	c.runs(id).end(e, files...)
	return c.ended(id)
}

// get does a GET that must succeed.
func (c *computing) get(path string, header ...string) (*http.Response, string) {
	c.T.Helper()
	r := c.Request(http.MethodGet, path, "")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, text := c.Ask(r)
	if answer.StatusCode >= 300 && answer.StatusCode != http.StatusNotModified {
		c.T.Fatalf("GET %s: %s: %.300s", path, answer.Status, text)
	}
	return answer, text
}

// puppet is an executor with as many slots as are wanted. It reports by itself what changes.
type puppet struct {
	mu       sync.Mutex // guards the rest
	payloads map[job.ID]*payload
	tell     func(job.ID)
	deaf     bool                 // it answers nothing
	lose     func(*payload) error // what happens to an answer to Submit; nil: it arrives
}

func newPuppet() *puppet { return &puppet{payloads: map[job.ID]*payload{}} }

// payload is a job at the puppet.
type payload struct {
	puppet *puppet
	id     job.ID
	parcel *compute.Parcel
	inputs map[string]string

	mu      sync.Mutex // guards the rest
	changed *sync.Cond
	out     map[string][]byte
	ending  *compute.Ending
	results []byte
	left    compute.LeftOut
}

var errDeaf = errors.New("it does not answer")

func (p *puppet) get(id job.ID) *payload {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.payloads[id]
}

func (p *puppet) news(id job.ID) {
	p.mu.Lock()
	tell := p.tell
	p.mu.Unlock()
	if tell != nil {
		tell(id)
	}
}

func (p *puppet) Notify(ctx context.Context, connected func(), changed func(job.ID)) error {
	p.mu.Lock()
	p.tell = changed
	p.mu.Unlock()
	connected()
	<-ctx.Done()
	return ctx.Err()
}

func (p *puppet) Capacity(context.Context) (compute.Capacity, error) {
	return compute.Capacity{Instance: "one", Slots: 50, Free: 50, Kind: "agent", Sandbox: "none"}, nil
}

func (p *puppet) Submit(_ context.Context, parcel *compute.Parcel) (compute.Notice, error) {
	inputs := map[string]string{}
	for _, f := range parcel.Files {
		r, err := parcel.Open(f.Name)
		if err != nil {
			return compute.Notice{}, err
		}
		text, err := io.ReadAll(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return compute.Notice{}, err
		}
		inputs[f.Name] = string(text)
	}
	one := &payload{puppet: p, id: parcel.Job, parcel: parcel, inputs: inputs, out: map[string][]byte{}}
	one.changed = sync.NewCond(&one.mu)
	p.mu.Lock()
	p.payloads[parcel.Job] = one
	lose := p.lose
	p.mu.Unlock()
	if lose != nil {
		if err := lose(one); err != nil {
			return compute.Notice{}, err
		}
	}
	return one.notice(), nil
}

func (p *payload) notice() compute.Notice {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := compute.Notice{Standing: compute.Works, Remote: "r-" + string(p.id), Instance: "one", Place: "node1",
		Started: time.Now().UTC()}
	if n.LeftOut = p.left; p.ending != nil {
		n.Standing, n.Ending, n.HasResult, n.Bytes, n.Finished = compute.Ended, p.ending, p.results != nil, -1,
			time.Now().UTC()
	}
	return n
}

func (p *puppet) find(h compute.Handle) (*payload, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf {
		return nil, errDeaf
	}
	if one := p.payloads[h.Job]; one != nil && one.parcel.Secret == h.Secret {
		return one, nil
	}
	return nil, compute.ErrNoPayload
}

func (p *puppet) Query(_ context.Context, h compute.Handle) (compute.Notice, error) {
	one, err := p.find(h)
	if errors.Is(err, compute.ErrNoPayload) {
		return compute.Notice{Standing: compute.Lost}, nil
	}
	if err != nil {
		return compute.Notice{}, err
	}
	return one.notice(), nil
}

func (p *puppet) Kill(_ context.Context, h compute.Handle) error {
	one, err := p.find(h)
	if err == nil {
		one.end(compute.Ending{Exit: -1, Signal: "SIGKILL", Cause: compute.CauseKilled,
			Sentence: "it was ended on request"})
	}
	return err
}

func (p *puppet) Results(_ context.Context, h compute.Handle) (io.ReadCloser, error) {
	one, err := p.find(h)
	if err != nil {
		return nil, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return io.NopCloser(bytes.NewReader(one.results)), nil
}

func (p *puppet) Partial(_ context.Context, h compute.Handle) (io.ReadCloser, error) {
	one, err := p.find(h)
	if err != nil {
		return nil, err
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	return io.NopCloser(bytes.NewReader(zipped(one.out, "partial.txt", "half"))), nil
}

func (p *puppet) Log(ctx context.Context, h compute.Handle, stream string, offset int64, follow bool) (io.ReadCloser,
	error) {
	one, err := p.find(h)
	if err != nil {
		return nil, err
	}
	r := &tail{payload: one, stream: stream, at: offset, follow: follow}
	r.stop = context.AfterFunc(ctx, r.wake)
	return r, nil
}

func (p *puppet) Forget(context.Context, compute.Handle) error { return nil }

// write has the payload write something.
func (p *payload) write(stream, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out[stream] = append(p.out[stream], text...)
	p.changed.Broadcast()
}

// end ends the payload; files are names and contents in turns.
func (p *payload) end(e compute.Ending, files ...string) {
	p.mu.Lock()
	if p.ending == nil {
		p.ending, p.results = &e, zipped(p.out, files...)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	p.puppet.news(p.id)
}

// leave has the payload report that something is not in its results.
func (p *payload) leave(left compute.LeftOut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = left
}

// tail reads what a payload writes.
type tail struct {
	payload *payload
	stream  string
	at      int64
	follow  bool
	closed  bool // guarded by the payload's lock
	stop    func() bool
}

func (t *tail) wake() {
	t.payload.mu.Lock()
	t.closed = true
	t.payload.mu.Unlock()
	t.payload.changed.Broadcast()
}

func (t *tail) Read(b []byte) (int, error) {
	p := t.payload
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		text := p.out[t.stream]
		switch {
		case t.closed:
			return 0, errors.New("closed")
		case t.at < int64(len(text)):
			n := copy(b, text[t.at:])
			t.at += int64(n)
			return n, nil
		case !t.follow || p.ending != nil:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

func (t *tail) Close() error {
	t.stop()
	t.wake()
	return nil
}

// zipped makes results: standard output and error, and files. One whose name ends in "=>" is a link; one that begins
// with "!" is not packed.
func zipped(out map[string][]byte, files ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	all := append([]string{"stdout", string(out["stdout"]), "stderr", string(out["stderr"])}, files...)
	for i := 0; i < len(all); i += 2 {
		h := &zip.FileHeader{Name: all[i], Method: zip.Deflate, Modified: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}
		h.SetMode(0o644)
		if name, link := strings.CutSuffix(all[i], "=>"); link {
			h.Name = name
			h.SetMode(0o777 | os.ModeSymlink)
		}
		if name, stored := strings.CutPrefix(h.Name, "!"); stored {
			h.Name, h.Method = name, zip.Store
		}
		w, err := z.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(w, all[i+1])
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// part is a part of a form.
type part struct{ name, file, text string }

// form does a POST of a form, whose parts are given as they stand there.
func (c *computing) form(header http.Header, parts ...part) *http.Request {
	c.T.Helper()
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--edge\r\nContent-Disposition: form-data; name=\"" + p.name + "\"")
		if p.file != "" {
			b.WriteString("; filename=\"" + p.file + "\"")
		}
		b.WriteString("\r\n\r\n" + p.text + "\r\n")
	}
	b.WriteString("--edge--\r\n")
	r := c.Request(http.MethodPost, "/api/v1/compute/jobs", b.String())
	r.Header.Set("Content-Type", "multipart/form-data; boundary=edge")
	for name := range header {
		r.Header.Set(name, header.Get(name))
	}
	return r
}

// sent does a request that must be answered with a job.
func (c *computing) sent(r *http.Request, status int) client.ComputeJob {
	c.T.Helper()
	answer, text := c.Ask(r)
	var j client.ComputeJob
	if err := json.Unmarshal([]byte(text), &j); err != nil || answer.StatusCode != status || j.ID == "" {
		c.T.Fatalf("%s %s: got %s, want %d: %.300s (%v)", r.Method, r.URL, answer.Status, status, text, err)
	}
	return j
}

// uploaded makes a complete upload and gives its id.
func (c *computing) uploaded(name, text string) string {
	c.T.Helper()
	r := c.Request(http.MethodPost, "/api/v1/compute/uploads", "")
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Upload-Length", strconv.Itoa(len(text)))
	r.Header.Set("Upload-Metadata", "filename "+base64.StdEncoding.EncodeToString([]byte(name)))
	answer, body := c.Ask(r)
	if answer.StatusCode != http.StatusCreated {
		c.T.Fatalf("%s: %s", answer.Status, body)
	}
	at := answer.Header.Get("Location")
	r = c.Request(http.MethodPatch, at, text)
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Content-Type", "application/offset+octet-stream")
	r.Header.Set("Upload-Offset", "0")
	if answer, body = c.Ask(r); answer.StatusCode != http.StatusNoContent {
		c.T.Fatalf("%s: %s", answer.Status, body)
	}
	return at[strings.LastIndex(at, "/")+1:]
}

func names(jobs []client.ComputeJob) []string {
	var all []string
	for i := range jobs {
		all = append(all, jobs[i].Name)
	}
	slices.Sort(all)
	return all
}
