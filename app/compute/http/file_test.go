package computehttp_test

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	computehttp "github.com/stagepost/stagepost/app/compute/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
)

// TestComputeFileDigests lists results of which there are no digests, as those that an earlier version fetched, and
// results with the digests of others: their files have none. Control: with their own digests.
func TestComputeFileDigests(t *testing.T) {
	var dir string
	c := openCompute(t, func(o *compute.Options, _ *options) { dir = o.Dir })
	j := c.order(client.ComputeOrder{}, "run.sh", "echo")
	c.runs(j.ID)
	c.finish(j.ID, compute.Ending{}, "made", "x")
	files, err := filepath.Glob(filepath.Join(dir, "compute", "jobs", "*", string(j.ID), "results.sums"))
	if err != nil || len(files) != 1 {
		t.Fatalf("digests in %v, %v", files, err)
	}
	own, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(own), "\n")
	for text, want := range map[string]bool{string(own): true, "": false, strings.ToUpper(first) + "\n" + rest: false,
		"none": false} {
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if text == "none" {
			if err := os.Remove(files[0]); err != nil {
				t.Fatal(err)
			}
		}
		list, err := c.Client.ComputeFiles(t.Context(), j.ID, "")
		if err != nil || len(list.Files) < 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		for _, f := range list.Files {
			if f.From == "results" && (f.SHA256 != "") != want {
				t.Errorf("with %.20q %s has the digest %q", text, f.Name, f.SHA256)
			}
		}
	}
}

// TestComputeFiles lists and gets single files, packed and stored, whole and in ranges.
func TestComputeFiles(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{}, "run.sh", "echo", "in.txt", "input")
	path := "/api/v1/compute/jobs/" + string(j.ID) + "/files"
	c.runs(j.ID)
	list, err := c.Client.ComputeFiles(t.Context(), j.ID, "")
	if err != nil || len(list.Files) != 2 || list.Files[0].From != "inputs" || list.Files[0].SHA256 == "" {
		t.Errorf("got %+v, %v", list, err)
	}
	long := strings.Repeat("0123456789", 20_000)
	c.finish(j.ID, compute.Ending{}, "deep/er/a b.html", "<script>x</script>", "long", long, "!plain", long, "link=>",
		"long", "run.sh", "echo", "ü\"\r\n.txt", "odd")
	list, err = c.Client.ComputeFiles(t.Context(), j.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list.Files {
		names = append(names, fmt.Sprintf("%s/%s %d %v", f.From, f.Name, f.Size, f.Link))
		if f.Link {
			continue // it is not followed, and has no digest
		}
		_, text := c.get(path + "/" + (&url.URL{Path: f.Name}).EscapedPath() + "?from=" + f.From)
		if sum := sha256.Sum256([]byte(text)); f.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s/%s has the digest %q", f.From, f.Name, f.SHA256)
		}
	}
	want := []string{"inputs/in.txt 5 false", "inputs/run.sh 4 false", "results/deep/er/a b.html 18 false",
		"results/link 4 true", "results/long 200000 false", "results/plain 200000 false",
		"results/run.sh 4 false", "results/stderr 0 false", "results/stdout 0 false", "results/ü\"\r\n.txt 3 false"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	for _, file := range []string{"long", "plain"} {
		for ranges, part := range map[string]string{"": long, "bytes=0-9": long[:10],
			"bytes=150001-150005": long[150001:150006], "bytes=-3": long[len(long)-3:], "bytes=199999-": "9"} {
			r := c.Request(http.MethodGet, path+"/"+file, "")
			if ranges != "" {
				r.Header.Set("Range", ranges)
			}
			answer, text := c.Ask(r)
			if text != part || (answer.StatusCode == http.StatusPartialContent) != (ranges != "") {
				t.Errorf("%s %s: got %s and %d bytes, want %d", file, ranges, answer.Status, len(text), len(part))
			}
		}
		r := c.Request(http.MethodGet, path+"/"+file, "")
		r.Header.Set("Range", "bytes=200000-")
		c.Problem(r, http.StatusRequestedRangeNotSatisfiable, job.Invalid)
	}
	if answer, text := c.get(path+"/long", "Range", "bytes=5-6,1-2"); answer.StatusCode != http.StatusOK ||
		text != long {
		t.Errorf("several ranges of a packed file: %s, %d bytes", answer.Status, len(text))
	}
	answer, text := c.get(path + "/deep/er/a%20b.html")
	if text != "<script>x</script>" || answer.Header.Get("Content-Type") != "application/octet-stream" ||
		answer.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(answer.Header.Get("Content-Disposition"), `attachment; filename="a b.html"`) ||
		!strings.Contains(answer.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("got %q %v", text, answer.Header)
	}
	if answer, _ = c.get(path+"/long", "If-None-Match", c.etag(path+"/long")); answer.StatusCode !=
		http.StatusNotModified {
		t.Errorf("got %s", answer.Status)
	}
	if c.etag(path+"/long") == c.etag(path+"/plain") || c.etag(path+"/run.sh") == c.etag(path+"/run.sh?from=inputs") {
		t.Error("two files have one entity tag")
	}
	if _, text = c.get(path + "/in.txt"); text != "input" {
		t.Errorf("got %q", text)
	}
	if p := c.Problem(c.Request(http.MethodGet, path+"/link", ""), http.StatusConflict,
		job.Refused); !strings.Contains(p.Detail, "symbolic link") {
		t.Errorf("got %q", p.Detail)
	}
	for _, none := range []string{"/nothing", "/in.txt?from=results", "/stdout?from=inputs", "/..%2F..%2Frun.sh",
		"/%2e%2e/run.sh", "/in.txt%00"} {
		if answer, text := c.Ask(c.Request(http.MethodGet, path+none, "")); answer.StatusCode != http.StatusNotFound &&
			answer.StatusCode/100 != 3 {
			t.Errorf("%s: got %s %q", none, answer.Status, text)
		}
	}
	missing := c.Request(http.MethodGet, path+"/nothing", "")
	if p := c.Problem(missing, http.StatusNotFound, job.NotFound); !strings.Contains(
		p.Detail,
		"neither among its results nor among its inputs",
	) {
		t.Errorf("got %q", p.Detail)
	}
	c.Problem(c.Request(http.MethodGet, path+"/run.sh?from=elsewhere", ""), http.StatusBadRequest, job.Invalid)
}

func (c *computing) etag(path string) string {
	answer, _ := c.get(path)
	return answer.Header.Get("ETag")
}

// TestComputeFilePages turns the pages of a list.
func TestComputeFilePages(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{}, "run.sh", "x", "b", "x")
	c.finish(j.ID, compute.Ending{}, "a", "1", "b", "2", "c", "3")
	got := 0
	after := ""
	for range 20 {
		_, text := c.get("/api/v1/compute/jobs/" + string(j.ID) + "/files?limit=2&after=" + after)
		got += strings.Count(text, `"from"`)
		_, next, more := strings.Cut(text, `"next":"`)
		if !more {
			break
		}
		after, _, _ = strings.Cut(next, `"`)
	}
	if got != 7 {
		t.Errorf("got %d files, want 7", got)
	}
}

// TestComputeResults gets the ZIP whole and in parts, with its digest.
func TestComputeResults(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	path := "/api/v1/compute/jobs/" + string(j.ID)
	p := c.runs(j.ID)
	c.Problem(c.Request(http.MethodGet, path+"/results", ""), http.StatusNotFound, job.NotFound)
	_, text := c.get(path + "/partial")
	if got := ziptest.Files(t, []byte(text))["partial.txt"]; got != "half" {
		t.Errorf("got %q", got)
	}
	c.puppet.mu.Lock()
	c.puppet.deaf = true
	c.puppet.mu.Unlock()
	c.Problem(c.Request(http.MethodGet, path+"/partial", ""), http.StatusServiceUnavailable, job.Unavailable)
	c.puppet.mu.Lock()
	c.puppet.deaf = false
	c.puppet.mu.Unlock()
	p.write("stdout", "hello")
	done := c.finish(j.ID, compute.Ending{Exit: 1, Cause: compute.CauseExit}, "out", "made")
	answer, whole := c.get(path + "/results")
	sum := sha256.Sum256([]byte(whole))
	if files := ziptest.Files(t, []byte(whole)); files["out"] != "made" || files["stdout"] != "hello" {
		t.Errorf("got %v", files)
	}
	if answer.Header.Get("ETag") != `"`+hex.EncodeToString(sum[:])+`"` ||
		done.Results.SHA256 != hex.EncodeToString(sum[:]) || answer.Header.Get("Content-Type") != "application/zip" ||
		answer.Header.Get("Repr-Digest") != "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":" ||
		!strings.Contains(answer.Header.Get("Content-Disposition"), string(j.ID)+".zip") {
		t.Errorf("got %v", answer.Header)
	}
	d, err := c.Client.ComputeResults(t.Context(), j.ID, answer.Header.Get("ETag"), 10)
	if err != nil || d.Start != 10 || d.Size != int64(len(whole)) {
		t.Fatalf("got %+v, %v", d, err)
	}
	rest, err := io.ReadAll(d.Body)
	if _ = d.Body.Close(); err != nil || string(rest) != whole[10:] {
		t.Errorf("got %d bytes, %v", len(rest), err)
	}
	if _, text := c.get(path + "/partial"); text != whole {
		t.Error("after the end a partial result is not the result")
	}
}

// TestComputeOwners: with tokens a user sees and makes its own jobs and uploads only; foreign ones are as unknown as
// none.
func TestComputeOwners(t *testing.T) {
	c, as := guarded(t, token.Entry{Role: identity.Depositor, Owner: "ann"},
		token.Entry{Role: identity.Depositor, Owner: "bea"}, token.Entry{Role: identity.Operator, Owner: "root"})
	send := func(owner, body string, status int) client.ComputeJob {
		t.Helper()
		return c.sent(as(owner, c.Request(http.MethodPost, "/api/v1/compute/jobs", body)), status)
	}
	const order = `{"service":"wide","command":["true"],"key":"k"}`
	mine := send("ann", order, http.StatusCreated)
	theirs := send("bea", order, http.StatusCreated)
	if mine.Owner != "ann" || theirs.Owner != "bea" || mine.ID == theirs.ID {
		t.Errorf("got %+v and %+v", mine, theirs)
	}
	if forged := send("ann", `{"service":"wide","command":["true"],"owner":"bea"}`, http.StatusCreated); forged.Owner != "ann" {
		t.Errorf("ann made a job of %s", forged.Owner)
	}
	if made := send("root", `{"service":"wide","command":["true"],"owner":"bea"}`, http.StatusCreated); made.Owner != "bea" {
		t.Errorf("an operator made a job of %s", made.Owner)
	}
	for _, r := range c.Server.All() {
		if !strings.HasPrefix(r.Pattern, "/api/v1/compute/jobs/{id}") {
			continue
		}
		at := strings.NewReplacer("{id}", string(theirs.ID), "{path...}", "run.sh").Replace(r.Pattern)
		c.Problem(as("ann", c.Request(r.Method, at, "")), http.StatusNotFound, job.NotFound)
	}
	// the control
	c.sent(as("bea", c.Request(http.MethodGet, "/api/v1/compute/jobs/"+string(theirs.ID), "")), http.StatusOK)
	for owner, want := range map[string]int{"ann": 2, "bea": 2, "root": 4} {
		_, text := c.Ask(as(owner, c.Request(http.MethodGet, "/api/v1/compute/jobs", "")))
		if got := strings.Count(text, `"number"`); got != want {
			t.Errorf("%s sees %d jobs, want %d", owner, got, want)
		}
	}
	c.Problem(as("ann", c.Request(http.MethodGet, "/api/v1/compute/jobs?owner=bea", "")), http.StatusForbidden,
		job.Refused)
	c.Problem(as("ann", c.Request(http.MethodGet, "/api/v1/compute/usage?owner=bea", "")), http.StatusForbidden,
		job.Refused)
	c.Problem(as("ann", c.Request(http.MethodGet, "/api/v1/compute/agents", "")), http.StatusForbidden, job.Refused)
	if _, text := c.Ask(as("ann", c.Request(http.MethodGet, "/api/v1/compute/usage", ""))); strings.Contains(text,
		"bea") {
		t.Errorf("ann learns of bea: %s", text)
	}
	r := as("ann", c.Request(http.MethodPost, "/api/v1/compute/uploads", ""))
	r.Header.Set("Tus-Resumable", "1.0.0")
	r.Header.Set("Upload-Length", "0")
	r.Header.Set("Upload-Metadata", "filename eA==")
	answer, text := c.Ask(r)
	at := answer.Header.Get("Location")
	if answer.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", answer.Status, text)
	}
	id := at[strings.LastIndex(at, "/")+1:]
	body := `{"service":"wide","command":["true"],"uploads":["` + id + `"]}`
	c.Problem(as("bea", c.Request(http.MethodPost, "/api/v1/compute/jobs", body)), http.StatusNotFound, job.NotFound)
	send("ann", body, http.StatusCreated)
}

// TestFailUpload: the statuses of the protocol stay, and each is a problem of a kind that fits; what the disk states
// stays in the log.
func TestFailUpload(t *testing.T) {
	for status, kind := range map[int]job.ErrorKind{
		400: job.Invalid, 403: job.Refused, 404: job.NotFound, 409: job.Conflict, 410: job.Gone, 412: job.Invalid,
		413: job.Invalid, 423: job.Refused, 460: job.Invalid, 500: job.Internal, 507: job.Unavailable,
	} {
		w := httptest.NewRecorder()
		computehttp.FailUpload(servertest.Discard)(w, httptest.NewRequest(http.MethodPatch, "/x", nil), status,
			fmt.Errorf("secret %d", status))
		if text := w.Body.String(); w.Code != status || !strings.Contains(text, fmt.Sprintf(`"kind":%q`, kind)) ||
			strings.Contains(text, "secret") == (status == 500) {
			t.Errorf("%d: got %d %s, want %s", status, w.Code, text, kind)
		}
	}
}

// tokensOf makes tokens, and returns their secrets by owner.
func tokensOf(t *testing.T, entries ...token.Entry) (*token.Tokens, map[string]string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	secrets := map[string]string{}
	for _, e := range entries {
		secret, err := token.New(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		secrets[e.Owner], e.Hash = secret.Reveal(), secret.Hash()
		if err := token.Add(file, e); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := token.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, secrets
}

// guarded is a server with tokens, and a function that sends a request with the token of an owner.
func guarded(t *testing.T, entries ...token.Entry) (*computing, func(owner string, r *http.Request) *http.Request) {
	t.Helper()
	tokens, secrets := tokensOf(t, entries...)
	c := openCompute(t, func(_ *compute.Options, so *options) { so.Identities = tokens })
	return c, func(owner string, r *http.Request) *http.Request {
		r.Header.Set("Authorization", "Bearer "+secrets[owner])
		return r
	}
}

// TestOrdersWithinGroups: who is limited to a service orders jobs on it, and on no other one, by no way. The control is
// the same request of an operator without groups.
func TestOrdersWithinGroups(t *testing.T) {
	c, as := guarded(t, token.Entry{Role: identity.Depositor, Owner: "ann", Groups: "wide"},
		token.Entry{Role: identity.Operator, Owner: "lab", Groups: "wide"},
		token.Entry{Role: identity.Operator, Owner: "root"})
	post := func(owner, path, body string) *http.Request {
		return as(owner, c.Request(http.MethodPost, "/api/v1/compute/jobs"+path, body))
	}
	other := twoServices[0].Name
	for _, owner := range []string{"ann", "lab"} {
		mine := c.sent(post(owner, "", `{"service":"wide","command":["true"]}`), http.StatusCreated)
		c.Problem(post(owner, "", `{"service":"`+other+`","command":["true"]}`), http.StatusForbidden, job.Refused)
		c.Problem(
			post(owner, "/"+string(mine.ID)+"/clone", `{"service":"`+other+`"}`),
			http.StatusForbidden,
			job.Refused,
		)
		c.sent(post(owner, "/"+string(mine.ID)+"/clone", `{"service":"wide"}`), http.StatusCreated)
		c.sent(post("root", "/"+string(mine.ID)+"/clone", `{"service":"`+other+`"}`), http.StatusCreated)
	}
}
