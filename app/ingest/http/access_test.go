package ingesthttp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/app/ingest/access"
	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

const vault = "ark:/99999/fk4vault"

// holdings is one object of one version in a directory.
type holdings struct {
	dir   string
	files []ingest.StoredFile
}

func (h *holdings) put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s256, s512 := sha256.Sum256([]byte(text)), sha512.Sum512([]byte(text))
	h.files = append(h.files, ingest.StoredFile{
		Path: "producer/" + name, Size: int64(len(text)), SHA256: hex.EncodeToString(s256[:]),
		SHA512: hex.EncodeToString(s512[:]),
	})
}

func (h *holdings) Objects(_ context.Context, q ingest.ObjectQuery) ([]ingest.Object, error) {
	if q.ARK != vault {
		return nil, nil
	}
	v := ingest.Version{Number: 1, Files: len(h.files), Created: time.Date(2024, 5, 4, 3, 2, 1, 0, time.UTC),
		Places: []ingest.Place{{Dir: "first", Name: "v1"}}}
	for _, f := range h.files {
		v.Bytes += f.Size
	}
	return []ingest.Object{{ARK: vault, Collection: "maps", Head: 1, Versions: []ingest.Version{v}}}, nil
}

func (h *holdings) Permit(user string) ingest.Permit { return ingest.Permit{User: user} }

func (h *holdings) Files(_ context.Context, _ string, _ int, after string, _ int) ([]ingest.StoredFile, error) {
	for i := range h.files {
		if h.files[i].Path > after {
			return h.files[i:], nil
		}
	}
	return nil, nil
}

func (h *holdings) Content(context.Context, string, ingest.Place) (map[string]string, error) {
	paths := map[string]string{}
	for _, f := range h.files {
		paths[f.Path] = strings.TrimPrefix(f.Path, "producer/")
	}
	return paths, nil
}

func (h *holdings) OpenContent(_, path string) (*os.File, error) {
	return os.Open(filepath.Join(h.dir, path))
}

// desk is a server that gives packages of a vault. Its engine does not run until the test starts it.
type desk struct {
	*servertest.Harness
	holdings *holdings
}

func openDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{holdings: &holdings{dir: t.TempDir()}}
	d.holdings.put(t, "a.txt", strings.Repeat("alpha ", 50_000))
	d.holdings.put(t, "b.txt", strings.Repeat("beta ", 50_000))
	app, err := access.New(access.Options{Dir: t.TempDir(), Holdings: d.holdings})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(mem.New(), app.Works(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	t.Cleanup(func() { // after the engine
		if err := app.Close(); err != nil {
			t.Error(err)
		}
	})
	d.Harness = servertest.Serve(t, server.Options{Engine: e}, func(w *servertest.Harness) server.Part {
		return ingesthttp.Part(w.Server, ingesthttp.Options{Access: app})
	})
	return d
}

// ready asks for a package and waits for it.
func (d *desk) ready(r client.AccessRequest) client.Access {
	d.T.Helper()
	if r.Object == "" {
		r.Object = vault
	}
	a, err := d.Client.RequestAccess(d.T.Context(), r)
	if err != nil {
		d.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(d.T.Context(), 20*time.Second)
	defer cancel()
	if _, err := d.Await(ctx, a.Job, func(j *job.Job) bool { return j.Ended }); err != nil {
		d.T.Fatal(err)
	}
	if a, err = d.Client.Access(d.T.Context(), a.Token); err != nil || a.Status != 200 {
		d.T.Fatalf("got %+v, %v", a, err)
	}
	return a
}

// get asks for a package with headers, as name, value pairs.
func (d *desk) get(method, token string, header ...string) (*http.Response, string) {
	d.T.Helper()
	r := d.Request(method, "/api/v1/access/"+token+"/content", "")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return d.Ask(r)
}

// TestAccess goes the way of a request: queued, refused while it is not ready, fetched whole and in parts, gone.
func TestAccess(t *testing.T) {
	d := openDesk(t)
	answer, text := d.Ask(d.Request(http.MethodPost, "/api/v1/access",
		`{"object":"`+vault+`","format":"bag-zip","name":"Karte 1 – groß"}`))
	var a client.Access
	if err := json.Unmarshal([]byte(text), &a); err != nil || answer.StatusCode != http.StatusAccepted {
		t.Fatalf("%s: %s, %v", answer.Status, text, err)
	}
	if a.Status != 201 || a.State != "Pending" || a.Place != 1 ||
		answer.Header.Get("Location") != "/api/v1/access/"+a.Token || a.Links["content"] == "" {
		t.Errorf("got %+v", a)
	}
	servertest.CheckHeaders(t, answer)
	refused := d.Request(http.MethodGet, a.Links["content"], "")
	d.Problem(refused, http.StatusConflict, job.Refused)
	if answer, _ := d.get(http.MethodGet, a.Token); answer.Header.Get("Retry-After") == "" {
		t.Error("there is no Retry-After")
	}
	d.Run()
	a = d.ready(client.AccessRequest{Format: "bag-zip", Name: "Karte 1 – groß"})
	answer, whole := d.get(http.MethodGet, a.Token)
	servertest.CheckHeaders(t, answer)
	for name, want := range map[string]string{
		"Content-Type": "application/zip", "ETag": a.ETag, "Accept-Ranges": "bytes",
		"Content-Length":      fmt.Sprint(a.Size),
		"Last-Modified":       "Sat, 04 May 2024 03:02:01 GMT",
		"Content-Disposition": `attachment; filename="Karte 1 _ gro_.zip"; filename*=UTF-8''Karte%201%20%E2%80%93%20gro%C3%9F.zip`,
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if _, parameters, err := mime.ParseMediaType(answer.Header.Get("Content-Disposition")); err != nil ||
		parameters["filename"] == "" {
		t.Errorf("got %v, %v", parameters, err)
	}
	if int64(len(whole)) != a.Size {
		t.Fatalf("got %d bytes", len(whole))
	}
	for _, c := range []struct {
		method string
		header []string
		status int
		want   string
	}{
		{http.MethodHead, nil, 200, ""},
		{http.MethodHead, []string{"Range", "bytes=100-199"}, 200, ""},
		{http.MethodGet, []string{"Range", "lines=1-2"}, 200, whole},
		{http.MethodGet, []string{"Range", "100-199"}, 200, whole},
		{http.MethodGet, []string{"Range", "Bytes=100-199"}, 206, whole[100:200]},
		{http.MethodGet, []string{"Range", "bytes=100-199"}, 206, whole[100:200]},
		{http.MethodGet, []string{"Range", "bytes=-50"}, 206, whole[len(whole)-50:]},
		{http.MethodGet, []string{"Range", "bytes=100-199", "If-Range", a.ETag}, 206, whole[100:200]},
		{http.MethodGet, []string{"Range", "bytes=100-199", "If-Range", `"another"`}, 200, whole},
		{http.MethodGet, []string{"Range", "bytes=100-199", "If-Range", "W/" + a.ETag}, 200, whole},
		{http.MethodGet, []string{"If-None-Match", a.ETag}, 304, ""},
		{http.MethodGet, []string{"If-Match", a.ETag}, 200, whole},
	} {
		answer, text := d.get(c.method, a.Token, c.header...)
		if answer.StatusCode != c.status || text != c.want {
			t.Errorf("%s %v: got %s and %d bytes, want %d and %d", c.method, c.header, answer.Status, len(text),
				c.status, len(c.want))
		}
	}
	answer, text = d.get(http.MethodGet, a.Token, "Range", "bytes=0-9,20-29")
	if answer.StatusCode != 206 || !strings.HasPrefix(answer.Header.Get("Content-Type"), "multipart/byteranges") ||
		!strings.Contains(text, whole[20:30]) {
		t.Errorf("two ranges: got %s", answer.Status)
	}
	for header, status := range map[[2]string]int{{"Range", "bytes=99999999-"}: 416, {"If-Match", `"another"`}: 412} {
		answer, text := d.get(http.MethodGet, a.Token, header[0], header[1])
		var p client.Problem
		if err := json.Unmarshal([]byte(text), &p); err != nil || answer.StatusCode != status || p.Status != status {
			t.Errorf("%v: got %s: %s", header, answer.Status, text)
		}
		servertest.CheckHeaders(t, answer)
	}
	if _, err := d.Client.Do(t.Context(), a.Job, "delete", client.Act{}); err != nil {
		t.Fatal(err)
	}
	d.Problem(d.Request(http.MethodGet, a.Links["content"], ""), http.StatusGone, job.Gone)
	d.Problem(d.Request(http.MethodGet, a.Links["self"], ""), http.StatusGone, job.Gone)
}

func TestAccessIsRefused(t *testing.T) {
	d := openDesk(t)
	for body, want := range map[string]int{
		`{"object":"` + vault + `"}`:                            202,
		`{"object":"ark:/99999/fk4nothing"}`:                    404,
		`{"object":"` + vault + `","version":2}`:                404,
		`{"object":"` + vault + `","files":["z"]}`:              404,
		`{"object":"` + vault + `","format":"rar"}`:             400,
		`{"object":"` + vault + `","name":"a\r\nX-Evil: 1"}`:    400,
		`{"object":"` + vault + `","name":"a\"b"}`:              400,
		`{"object":"` + vault + `","name":"../../etc/passwd"}`:  400,
		`{"object":"` + vault + `","surprise":true}`:            400,
		`{"object":"` + vault + `","object":"ark:/99999/fk4x"}`: 400,
		`{}`: 400, `[]`: 400, ``: 415,
	} {
		answer, text := d.Ask(d.Request(http.MethodPost, "/api/v1/access", body))
		if answer.StatusCode != want {
			t.Errorf("%s: got %s: %s", body, answer.Status, text)
		}
		servertest.CheckHeaders(t, answer)
	}
	for _, token := range []string{"x", strings.Repeat("a", 52), "..%2f..%2fetc", "%00"} {
		d.Problem(d.Request(http.MethodGet, "/api/v1/access/"+token, ""), http.StatusNotFound, job.NotFound)
		d.Problem(d.Request(http.MethodGet, "/api/v1/access/"+token+"/content", ""), http.StatusNotFound, job.NotFound)
	}
	key := d.Request(http.MethodPost, "/api/v1/access", `{"object":"`+vault+`","key":"k1"}`)
	key.Header.Set("Idempotency-Key", "k2")
	d.Problem(key, http.StatusBadRequest, job.Invalid)
	w := open(t, nil, nil)
	w.Problem(w.Request(http.MethodGet, "/api/v1/access/x", ""), http.StatusNotFound, job.NotFound)
}

// TestAccessInPieces puts a package together from ranges, as a client does that was cut off.
func TestAccessInPieces(t *testing.T) {
	d := openDesk(t)
	d.Run()
	for _, format := range []string{"zip", "tar", "bag-zip", "bag-tar"} {
		a := d.ready(client.AccessRequest{Format: format})
		_, whole := d.get(http.MethodGet, a.Token)
		var got bytes.Buffer
		for int64(got.Len()) < a.Size {
			body, start, err := d.Client.FetchAccess(t.Context(), a.Token, a.ETag, int64(got.Len()))
			if err != nil || start != int64(got.Len()) {
				t.Fatalf("it begins at %d, %v", start, err)
			}
			if _, err := io.CopyN(&got, body, 1+rand.Int64N(200_000)); err != nil && !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			_ = body.Close()
		}
		if got.String() != whole {
			t.Errorf("%s: the pieces do not make the whole", format)
		}
		if body, start, err := d.Client.FetchAccess(t.Context(), a.Token, `"another"`, 7); err != nil || start != 0 {
			t.Errorf("another package begins at %d, %v", start, err)
		} else {
			_ = body.Close()
		}
	}
}

// TestAccessToChangedContent: what can be noticed before an answer begins is a problem that names the file; what shows
// in the middle breaks the connection, and a request for the rest is refused with the reason. The control is the
// untouched content.
func TestAccessToChangedContent(t *testing.T) {
	d := openDesk(t)
	d.Run()
	a := d.ready(client.AccessRequest{})
	_, whole := d.get(http.MethodGet, a.Token)
	was, err := os.ReadFile(filepath.Join(d.holdings.dir, "b.txt"))
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d.holdings.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"short", strings.ToUpper(string(was))} {
		rewrite("b.txt", text)
		answer, err := http.Get(d.Web.URL + a.Links["content"])
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusOK || err == nil || len(got) >= len(whole) ||
			!strings.HasPrefix(whole, string(got[:300_000])) {
			t.Errorf("got %s, %d bytes, %v", answer.Status, len(got), err)
		}
	}
	rewrite("b.txt", "short")
	at := strings.Index(whole, "beta") + 10
	p := d.Problem(func() *http.Request {
		r := d.Request(http.MethodGet, a.Links["content"], "")
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", at))
		return r
	}(), http.StatusConflict, job.Conflict)
	if !strings.Contains(p.Detail, "producer/b.txt") || !strings.Contains(p.Detail, "has 5 bytes") {
		t.Errorf("got %q", p.Detail)
	}
	rewrite("b.txt", string(was))
	if answer, got := d.get(http.MethodGet, a.Token); answer.StatusCode != http.StatusOK || got != whole {
		t.Error("the control: it is not as it was")
	}
	if err := os.Remove(filepath.Join(d.holdings.dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	p = d.Problem(d.Request(http.MethodGet, a.Links["content"], ""), http.StatusConflict, job.Conflict)
	if !strings.Contains(p.Detail, "producer/a.txt") {
		t.Errorf("got %q", p.Detail)
	}
}

// TestSeveralRanges of content that changed break the connection, as one does. The control is the untouched content;
// readers who go away in the middle do no harm.
func TestSeveralRanges(t *testing.T) {
	d := openDesk(t)
	d.Run()
	a := d.ready(client.AccessRequest{Format: "tar"})
	get := func() (*http.Response, error) {
		r := d.Request(http.MethodGet, a.Links["content"], "")
		r.Header.Set("Range", "bytes=0-511,512-310000")
		return http.DefaultClient.Do(r)
	}
	for range 20 {
		answer, err := get()
		if err != nil || answer.StatusCode != http.StatusPartialContent {
			t.Fatalf("got %v, %v", answer, err)
		}
		_ = answer.Body.Close()
	}
	for text, whole := range map[string]bool{"alpha ": true, "other ": false} {
		if err := os.WriteFile(filepath.Join(d.holdings.dir, "a.txt"), []byte(strings.Repeat(text, 50_000)),
			0o600); err != nil {
			t.Fatal(err)
		}
		answer, err := get()
		if err == nil {
			_, err = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
		}
		if (err == nil) != whole {
			t.Errorf("%s: got %v", text, err)
		}
	}
}

// TestFailedPackage answers why there is none, without Retry-After.
func TestFailedPackage(t *testing.T) {
	d := openDesk(t)
	if err := os.Remove(filepath.Join(d.holdings.dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	a, err := d.Client.RequestAccess(t.Context(), client.AccessRequest{Object: vault})
	if err != nil {
		t.Fatal(err)
	}
	if answer, _ := d.get(http.MethodGet, a.Token); answer.Header.Get("Retry-After") == "" {
		t.Error("the control: there is no Retry-After")
	}
	d.Run()
	if _, err := d.Await(t.Context(), a.Job, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	answer, text := d.get(http.MethodGet, a.Token)
	if answer.StatusCode != http.StatusConflict || answer.Header.Get("Retry-After") != "" ||
		!strings.Contains(text, "producer/a.txt") {
		t.Errorf("got %s, Retry-After %q: %s", answer.Status, answer.Header.Get("Retry-After"), text)
	}
}

// TestSlowDownload: a reader that takes longer than answers usually may gets its package; one that hangs is cut off.
// The control is a handler that does not ask for more time.
func TestSlowDownload(t *testing.T) {
	d := openDesk(t)
	// more than the kernel takes for a reader who does not read
	d.holdings.put(t, "c.txt", strings.Repeat("gamma ", 2_000_000))
	d.Run()
	a := d.ready(client.AccessRequest{})
	mux := http.NewServeMux()
	mux.Handle("/", d.Server)
	mux.HandleFunc("/hasty", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 12<<20))
	})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := listen.HTTP(mux, servertest.Discard)
	h.ReadTimeout, h.WriteTimeout = 20*time.Millisecond, 20*time.Millisecond
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	read := func(path string) (int64, error) {
		answer, err := http.Get("http://" + l.Addr().String() + path)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		head, err := io.CopyN(io.Discard, answer.Body, 1000)
		if err != nil {
			return head, err
		}
		<-time.After(100 * time.Millisecond) // a slow reader is what is tested
		rest, err := io.Copy(io.Discard, answer.Body)
		return head + rest, err
	}
	if n, err := read(a.Links["content"]); err != nil || n != a.Size {
		t.Errorf("got %d bytes of %d, %v", n, a.Size, err)
	}
	if n, err := read("/hasty"); err == nil {
		t.Errorf("the control got %d bytes", n)
	}
}
