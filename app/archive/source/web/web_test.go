package web_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/source/sourcetest"
	"github.com/stagepost/stagepost/app/archive/source/web"
	"github.com/stagepost/stagepost/edge/fetch"
)

// fixture is a web server with files, and a directory with lists.
type fixture struct {
	t       testing.TB
	url     string
	lists   string
	scratch *os.Root
	o       web.Options
	source  *web.Source

	mu     sync.Mutex
	files  map[string]string
	broken int // number of the request that is cut; counts down
	ranges []string
	calls  int
	hold   func() // called for each request
}

const activityID = "maps"

var activity = source.Activity{Course: activityID, ID: activityID, Module: web.Module, Name: activityID}

func newFixture(t testing.TB, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, files: files, lists: t.TempDir()}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	var err error
	if f.scratch, err = os.OpenRoot(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.scratch.Close() })
	local := fetch.New(fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Retries: -1,
		OwnAddresses: func() ([]netip.Addr, error) { return nil, nil }})
	t.Cleanup(local.Close)
	f.o = web.Options{Lists: f.lists, Fetch: local, Scratch: f.scratch}
	f.open()
	return f
}

func (f *fixture) open() {
	f.t.Helper()
	var err error
	if f.source, err = web.Open(f.o); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { f.source.Close() })
}

// ServeHTTP serves the files with the digest of the content as ETag.
func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	body, ok := f.files[strings.TrimPrefix(r.URL.Path, "/")]
	f.calls++
	f.ranges = append(f.ranges, r.Header.Get("Range"))
	f.broken--
	cut := f.broken == 0
	f.mu.Unlock()
	if f.hold != nil {
		f.hold()
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", sum(body)[:16]))
	if cut {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write([]byte(body[:len(body)/2]))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(body))
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

const (
	header = "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n"
	footer = "#%eof\n"
)

// row is a line of a list.
func (f *fixture) row(file, name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := f.files[file]
	return fmt.Sprintf("%s/%s | sha256 | %s | %d | | %s\n", f.url, file, sum(body), len(body), name)
}

// bare is a line without digest and size.
func (f *fixture) bare(file, name string) string {
	return fmt.Sprintf("%s/%s | | | | | %s\n", f.url, file, name)
}

func (f *fixture) list(rows ...string) {
	f.t.Helper()
	text := header + strings.Join(rows, "") + footer
	if err := os.WriteFile(filepath.Join(f.lists, activityID+web.Suffix), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) set(name, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.files[name] = body
}

func small() map[string]string {
	return map[string]string{
		"a": strings.Repeat("alpha", 1000), "b": strings.Repeat("beta", 500), "c": "gamma", "d": "delta",
		"unlisted": "x",
	}
}

func TestContract(t *testing.T) {
	for _, digests := range []bool{true, false} {
		t.Run(fmt.Sprintf("digests=%t", digests), func(t *testing.T) {
			sourcetest.Run(t, func(t testing.TB) sourcetest.Fixture {
				f := newFixture(t, small())
				write := func() {
					row := f.row
					if !digests {
						row = f.bare
					}
					f.list(row("b", "sub/b.txt"), row("a", "a:b.txt"), row("c", "a_b.txt"), row("d", "A_B.TXT"))
				}
				write()
				return sourcetest.Fixture{
					Source: f.source, Course: activityID,
					Change: func(testing.TB) { f.set("b", "changed"); write() },
					Other: func(t testing.TB) {
						f.set("unlisted", "changed")
						name := filepath.Join(f.lists, activityID+web.Suffix)
						text, err := os.ReadFile(name)
						if err != nil {
							t.Fatal(err)
						}
						lines := strings.SplitAfter(string(text), "\n") // another order, and a comment
						lines[2], lines[4] = "# moved\n"+lines[4], lines[2]
						if err := os.WriteFile(name, []byte(strings.Join(lines, "")), 0o600); err != nil {
							t.Fatal(err)
						}
					},
					Break: func(n int) func() bool {
						f.mu.Lock()
						defer f.mu.Unlock()
						f.broken = n
						return func() bool {
							f.mu.Lock()
							defer f.mu.Unlock()
							reached := f.broken <= 0
							f.broken = 0
							return reached
						}
					},
				}
			})
		})
	}
}

// fails checks the class of an error.
func fails(t *testing.T, err error, temporary bool, text string) {
	t.Helper()
	var e *source.Error
	if !errors.As(err, &e) || e.Temporary() != temporary || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v (temporary %t)", err, e != nil && e.Temporary())
	}
}

// TestLists has lists that cannot be archived. The error names the line.
func TestLists(t *testing.T) {
	f := newFixture(t, small())
	good := f.row("a", "a.txt")
	for name, c := range map[string]struct{ rows, text string }{
		"control":     {good, ""},
		"no address":  {"| md5 | 00000000000000000000000000000000 | 3 | | x\n", "maps.checkm:3"},
		"scheme":      {"ftp://example.org/x | | | | | x\n", "scheme is not http or https"},
		"file":        {"file:///etc/passwd | | | | | x\n", "scheme is not http or https"},
		"port":        {"http://example.org:25/x | | | | | x\n", "port 25 is not allowed"},
		"spelling":    {"http://0x7f.1/x | | | | | x\n", "unusual spelling"},
		"twice":       {good + f.row("b", "./a.txt"), `the name "a.txt" is used in line 3 as well`},
		"path":        {f.row("a", "../a.txt"), "maps.checkm:3"},
		"digest":      {strings.Replace(good, "sha256", "md5", 1), "maps.checkm:3"},
		"algorithm":   {f.url + "/a | md2 | 00000000000000000000000000000000 | | | a\n", "maps.checkm:3"},
		"other lines": {"not a row\n", "maps.checkm:3"},
	} {
		t.Run(name, func(t *testing.T) {
			f.list(c.rows)
			_, err := f.source.Plan(t.Context(), activity, source.Settings{})
			if name == "control" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			fails(t, err, false, c.text)
		})
	}
	t.Run("cut", func(t *testing.T) {
		f.list(good)
		name := filepath.Join(f.lists, activityID+web.Suffix)
		if err := os.WriteFile(name, []byte(header+good), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.source.Plan(t.Context(), activity, source.Settings{})
		fails(t, err, false, "#%eof")
	})
	t.Run("other profile", func(t *testing.T) {
		name := filepath.Join(f.lists, activityID+web.Suffix)
		text := strings.Replace(header, "mrt-ingest-manifest", "mrt-batch-manifest", 1) + footer
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := f.source.Plan(t.Context(), activity, source.Settings{})
		fails(t, err, false, "maps.checkm")
	})
}

// TestNeedDigests: a file without a digest is refused, or kept with a warning.
func TestNeedDigests(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("a", "a"), f.bare("b", "b"))
	p, err := f.source.Plan(t.Context(), activity, source.Settings{})
	if err != nil || len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "1 of 2 files") {
		t.Errorf("got %+v, %v", p, err)
	}
	f.o.NeedDigests = true
	f.open()
	_, err = f.source.Plan(t.Context(), activity, source.Settings{})
	fails(t, err, false, `"b" has no digest`)
	f.list(f.row("a", "a"))
	if p, err = f.source.Plan(t.Context(), activity, source.Settings{}); err != nil || len(p.Warnings) != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// TestAddresses: without a rule for it, no address of this machine is requested.
func TestAddresses(t *testing.T) {
	f := newFixture(t, small())
	public := fetch.New(fetch.Policy{Retries: -1})
	defer public.Close()
	f.o.Fetch = public
	f.open()
	f.list(f.bare("a", "a"))
	_, err := sourcetest.Archive(t.Context(), f.source, activity, &sourcetest.Out{})
	fails(t, err, false, "refused")
	_, err = f.source.Fingerprint(t.Context(), activity)
	fails(t, err, false, "refused")
	if f.calls != 0 {
		t.Errorf("%d requests", f.calls)
	}
}

// TestWrongContent: bytes with another digest or size are not kept. A wrong digest is downloaded three times.
func TestWrongContent(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("c", "c"))
	f.set("c", "GAMMA")
	out := &sourcetest.Out{}
	_, err := sourcetest.Archive(t.Context(), f.source, activity, out)
	fails(t, err, false, "bad digest")
	if len(out.Names()) != 0 || f.calls != 3 {
		t.Errorf("got %q, %d requests", out.Names(), f.calls)
	}
	f.set("c", "gamma and more")
	_, err = sourcetest.Archive(t.Context(), f.source, activity, out)
	fails(t, err, false, "size")
	f.set("c", "gamma")
	_, err = sourcetest.Archive(t.Context(), f.source, activity, out)
	if err != nil || out.Body("files/c") != "gamma" {
		t.Errorf("control: got %q, %v", out.Body("files/c"), err)
	}
}

// TestStatus has the classes of answers.
func TestStatus(t *testing.T) {
	for status, temporary := range map[int]bool{
		401: false, 403: false, 404: false, 410: false, 408: true, 425: true, 429: true, 500: true, 503: true,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			f := newFixture(t, small())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(status)
			}))
			defer server.Close()
			f.list(strings.Replace(f.row("a", "a"), f.url, server.URL, 1))
			_, err := sourcetest.Archive(t.Context(), f.source, activity, &sourcetest.Out{})
			fails(t, err, temporary, "")
			var e *source.Error
			if errors.As(err, &e); temporary && e.After != 2*time.Minute {
				t.Errorf("after %s", e.After)
			}
		})
	}
}

// TestResume: a new process continues a download that was cut.
func TestResume(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("a", "a"))
	f.broken = 1
	out := &sourcetest.Out{}
	_, err := sourcetest.Archive(t.Context(), f.source, activity, out)
	fails(t, err, true, "")
	f.open()
	if _, err := sourcetest.Archive(t.Context(), f.source, activity, out); err != nil {
		t.Fatal(err)
	}
	if len(f.ranges) != 2 || f.ranges[1] != "bytes=2500-" || out.Body("files/a") != f.files["a"] {
		t.Errorf("requests %q, %d bytes", f.ranges, len(out.Body("files/a")))
	}
	// a crash between download and package: the file is there, and no request is made
	if _, err := sourcetest.Archive(t.Context(), f.source, activity, &sourcetest.Out{FailAt: 1}); err == nil {
		t.Error("the write did not fail")
	}
	before := f.calls
	if _, err := sourcetest.Archive(t.Context(), f.source, activity, out); err != nil || f.calls != before {
		t.Errorf("%d requests, %v", f.calls-before, err)
	}
	dir, err := f.scratch.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if rest, err := dir.Readdirnames(-1); err != nil || len(rest) != 0 {
		t.Errorf("scratch has %q, %v", rest, err)
	}
}

// TestTwoJobs: two jobs that archive one list at once use a scratch file one after the other.
func TestTwoJobs(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("a", "a"))
	arrived, proceed := make(chan struct{}), make(chan struct{})
	var first sync.Once
	f.hold = func() {
		first.Do(func() {
			arrived <- struct{}{}
			<-proceed
		})
	}
	errs := make(chan error, 2)
	outs := [2]sourcetest.Out{}
	go func() { errs <- second(sourcetest.Archive(t.Context(), f.source, activity, &outs[0])) }()
	<-arrived // the first job holds the file, and its request does not end
	p, err := f.source.Plan(t.Context(), activity, source.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { errs <- second(sourcetest.Archive(t.Context(), f.source, activity, &outs[1])) }()
	ctx, cancel := context.WithCancel(t.Context())
	waiting := make(chan error)
	go func() { waiting <- f.source.Fetch(ctx, activity, p.Items[0], source.Settings{}, &sourcetest.Out{}) }()
	cancel() // while it waits, or before
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
	close(proceed)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for i := range outs {
		if outs[i].Body("files/a") != f.files["a"] {
			t.Errorf("job %d: %d bytes", i, len(outs[i].Body("files/a")))
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestOrigin: addresses are kept without secrets.
func TestOrigin(t *testing.T) {
	f := newFixture(t, small())
	digest := md5.Sum([]byte("gamma"))
	f.list(fmt.Sprintf("%s/c?id=7&X-Amz-Signature=secret1 | MD5 | %X | 5 | | c | text/plain\n",
		strings.Replace(f.url, "//", "//user:secret2@", 1), digest))
	out := &sourcetest.Out{}
	if _, err := sourcetest.Archive(t.Context(), f.source, activity, out); err != nil {
		t.Fatal(err)
	}
	if o := out.Origin("files/c"); strings.Contains(o.URL, "secret") || !strings.Contains(o.URL, "id=7") ||
		o.Name != "c" {
		t.Errorf("got %+v", o)
	}
}

// TestBareChanges: a file without a digest is a change if the server states another version.
func TestBareChanges(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.bare("c", "c"))
	before, err := f.source.Fingerprint(t.Context(), activity)
	if err != nil {
		t.Fatal(err)
	}
	f.set("c", "GAMMA")
	after, err := f.source.Fingerprint(t.Context(), activity)
	if err != nil || after == before {
		t.Errorf("got %s and %s, %v", before, after, err)
	}
}

func TestCourses(t *testing.T) {
	f := newFixture(t, small())
	if facts, err := f.source.Check(t.Context()); err != nil || len(facts.Warnings) != 1 {
		t.Errorf("got %+v, %v", facts, err)
	}
	f.list(f.row("a", "a"))
	for _, name := range []string{"other.txt", ".hidden" + web.Suffix, web.Suffix} {
		if err := os.WriteFile(filepath.Join(f.lists, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(f.lists, "link"+web.Suffix)); err != nil {
		t.Fatal(err)
	}
	all, err := f.source.Courses(t.Context(), nil)
	if err != nil || len(all) != 1 || all[0].ID != activityID {
		t.Errorf("got %+v, %v", all, err)
	}
	for _, id := range []string{"link", ".hidden", "gone", "", "../maps", "other.txt", "other"} {
		if _, err := f.source.Activities(t.Context(), id); err == nil {
			t.Errorf("%q has activities", id)
		}
		a := activity
		a.ID, a.Course = id, id
		if _, err := f.source.Plan(t.Context(), a, source.Settings{}); err == nil {
			t.Errorf("%q has a plan", id)
		}
	}
	for _, o := range []web.Options{{}, {Fetch: f.o.Fetch}, {Fetch: f.o.Fetch, Scratch: f.scratch, Lists: "/gone"}} {
		if _, err := web.Open(o); err == nil {
			t.Errorf("%+v is opened", o)
		}
	}
}

// corrupting is an Out before which a scratch file changes, once.
type corrupting struct {
	sourcetest.Out
	root *os.Root
	done bool
}

func (c *corrupting) Put(
	ctx context.Context, name string, o *source.Origin, fill func(io.Writer) error,
) error {
	if !c.done {
		c.done = true
		all, err := fs.Glob(c.root.FS(), "web-*")
		if err != nil || len(all) != 1 {
			return fmt.Errorf("scratch has %q, %w", all, err)
		}
		if err := c.root.WriteFile(all[0], []byte("other"), 0o600); err != nil {
			return err
		}
	}
	return c.Out.Put(ctx, name, o, fill)
}

// TestScratchChangedLate: bytes that change after the download are not kept either.
func TestScratchChangedLate(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("a", "a"))
	out := &corrupting{root: f.scratch}
	_, err := sourcetest.Archive(t.Context(), f.source, activity, out)
	fails(t, err, true, "scratch file changed")
	if !errors.Is(err, source.ErrContent) || len(out.Names()) != 0 {
		t.Errorf("got %v, %q", err, out.Names())
	}
	_, err = sourcetest.Archive(t.Context(), f.source, activity, out)
	if err != nil || out.Body("files/a") != f.files["a"] {
		t.Errorf("got %d bytes, %v", len(out.Body("files/a")), err)
	}
}

// TestScratchChanged: bytes that changed on the disk are not kept, and are downloaded anew.
func TestScratchChanged(t *testing.T) {
	f := newFixture(t, small())
	f.list(f.row("a", "a"))
	if _, err := sourcetest.Archive(t.Context(), f.source, activity, &sourcetest.Out{FailAt: 1}); err == nil {
		t.Fatal("the write did not fail")
	}
	dir, err := f.scratch.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil || len(names) != 1 {
		t.Fatalf("got %q, %v", names, err)
	}
	if err := f.scratch.WriteFile(names[0], []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &sourcetest.Out{}
	_, err = sourcetest.Archive(t.Context(), f.source, activity, out)
	if err != nil || out.Body("files/a") != f.files["a"] {
		t.Errorf("got %d bytes, %v", len(out.Body("files/a")), err)
	}
}
