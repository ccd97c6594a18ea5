package ingesthttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// receiver is an application that reports the first bytes of a payload.
type receiver struct {
	begun chan struct{}
}

func (r *receiver) Submit(_ context.Context, _ string, _ client.Submission, payload io.Reader) (job.Job, error) {
	if _, err := io.ReadFull(payload, make([]byte, 5)); err != nil {
		return job.Job{}, err
	}
	close(r.begun)
	if _, err := io.Copy(io.Discard, payload); err != nil {
		return job.Job{}, job.Errorf(job.Unavailable, "submit", "", "the payload: %w", err)
	}
	return job.Job{ID: "let_1", Kind: "test.letter"}, nil
}

func (*receiver) Upload(string) (ingesthttp.Upload, error) {
	return nil, job.Errorf(job.Unavailable, "submit", "", "it takes no uploads")
}

func (*receiver) Batch(context.Context, job.ID) (job.Job, error) { return job.Job{}, nil }

func (*receiver) Report(context.Context, job.ID) (ingesthttp.Report, error) {
	return ingesthttp.Report{}, nil
}

func (*receiver) Objects(context.Context, string, client.ObjectQuery) (client.Objects, error) {
	return client.Objects{}, nil
}

// TestUploadIsCut refuses a payload whose sender is not done when the server's grace is over: with an answer that names
// it, though the sender sends nothing at all at that moment. The control goes on sending and is done before.
func TestUploadIsCut(t *testing.T) {
	for _, cut := range []bool{true, false} {
		app := &receiver{begun: make(chan struct{})}
		w := open(t, func(o *options) { o.Ingest = app }, nil)
		pipe, sender := io.Pipe()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Web.URL+"/api/v1/ingest/submissions", pipe)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Type", "multipart/form-data; boundary=B")
		got := make(chan *http.Response, 1)
		go func() {
			answer, err := http.DefaultClient.Do(q)
			if err != nil {
				t.Error(err)
			}
			got <- answer
		}()
		text := form("payload", strings.Repeat("x", 100))
		if _, err := io.WriteString(sender, text[:120]); err != nil {
			t.Fatal(err)
		}
		<-app.begun
		if cut {
			w.Server.CutUploads()
		} else if _, err = io.WriteString(sender, text[120:]); err != nil {
			t.Error(err)
		} else {
			_ = sender.Close()
		}
		answer := <-got
		if answer == nil {
			t.FailNow()
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		_ = sender.Close()
		want, says := http.StatusCreated, "let_1"
		if cut {
			want, says = http.StatusServiceUnavailable, "the server stops"
		}
		if err != nil || answer.StatusCode != want || !strings.Contains(string(body), says) {
			t.Errorf("cut=%v: got %s, %s, %v", cut, answer.Status, body, err)
		}
		if cut { // later uploads are refused as well
			if answer, text := w.Ask(submission(w)); answer.StatusCode != http.StatusServiceUnavailable {
				t.Errorf("got %s, %s", answer.Status, text)
			}
		}
	}
}

func submission(w *harness) *http.Request {
	q := w.Request(http.MethodPost, "/api/v1/ingest/submissions", form("payload", "bytes and bytes"))
	q.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	return q
}

// answers is what a server logged of its answers.
type answers struct{ got chan string }

func (a *answers) Answered(method, route string, status int, took time.Duration) {
	a.got <- method + " " + route + " " + http.StatusText(status)
	if took <= 0 {
		a.got <- "no time"
	}
}

func (a *answers) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "all is well")
}

// TestAnswersAreCounted by route, never by path: what strangers make up must not become a label.
func TestAnswersAreCounted(t *testing.T) {
	a := &answers{got: make(chan string, 10)}
	w := open(t, func(o *options) { o.Metrics = a }, nil)
	foreign := w.Request(http.MethodPut, "/api/v1/holds", "{}")
	foreign.Header.Set("Origin", "https://evil.example")
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	rebound := w.Request(http.MethodGet, "/healthz", "")
	rebound.Host = "evil.example"
	for _, c := range []struct {
		request *http.Request
		want    string
	}{
		{w.Request(http.MethodGet, "/api/v1/jobs/let_1", ""), "GET /api/v1/jobs/{id} Not Found"},
		{w.Request(http.MethodGet, "/healthz", ""), "GET /healthz OK"},
		{w.Request(http.MethodGet, "/api/v1/made/up", ""), "GET  Not Found"},
		{foreign, "PUT /api/v1/holds Forbidden"},
		{rebound, "GET /healthz Misdirected Request"},
		{w.Request(http.MethodGet, "/metrics", ""), "GET /metrics OK"},
	} {
		w.Ask(c.request)
		if got := <-a.got; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if answer, text := w.Ask(w.Request(http.MethodGet, "/metrics", "")); text != "all is well" {
		t.Errorf("got %s, %s", answer.Status, text)
	}
}

// TestMetricsHaveAnAddress of their own, if wanted: then they are not on the other one.
func TestMetricsHaveAnAddress(t *testing.T) {
	a := &answers{got: make(chan string, 10)}
	w := open(t, func(o *options) { o.Metrics, o.MetricsElsewhere = a, true }, nil)
	w.Problem(w.Request(http.MethodGet, "/metrics", ""), http.StatusNotFound, job.NotFound)
	own := httptest.NewServer(w.Server.MetricsAlone())
	defer own.Close()
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/api/v1/jobs": http.StatusNotFound,
		"/healthz": http.StatusNotFound} {
		answer, err := http.Get(own.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckHeaders(t, answer)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: got %s", path, answer.Status)
		}
	}
}
