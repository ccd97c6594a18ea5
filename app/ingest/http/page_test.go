package ingesthttp_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/svgtest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/servertest"
)

// reporter is an ingest with one report.
type reporter struct {
	ingesthttp.Ingest
	report client.BatchReport
	ended  bool
	made   atomic.Int64 // reports
}

func (r *reporter) Batch(_ context.Context, id job.ID) (job.Job, error) {
	return job.Job{ID: id, Ended: r.ended}, nil
}

func (r *reporter) Report(_ context.Context, id job.ID) (ingesthttp.Report, error) {
	r.made.Add(1)
	r.report.Batch = id
	r.report.Jobs = append([]client.JobReport{}, r.report.Jobs...)
	return ingesthttp.Report{
		Batch: r.report, Ended: r.ended, Text: func() string { return "as text" },
		HTML: func() (string, error) { return "<p>as HTML</p>", nil },
		CSV:  func(completed bool) []byte { return fmt.Appendf(nil, "job\r\ncompleted=%v\r\n", completed) },
	}, nil
}

func hostile() client.BatchReport {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	return client.BatchReport{
		State: "Processing", Filename: evil, Submitter: "eve\u202e", Note: "javascript:alert(1)", Profile: evil,
		Expected: 700, Pending: 97, Completed: 602, Failed: 1,
		Summary: "We are fetching your files.", Next: "There is nothing for you to do now.",
		Jobs: append(many(602), client.JobReport{Job: "ing_x", State: "Failed", Outcome: "failed", Title: evil,
			Message: "\x1b[2J" + evil, Reason: "a file is missing", Next: "Put it there."},
			client.JobReport{Job: "ing_y", State: "Downloading", Title: strings.Repeat("long", 1000),
				LocalIDs: []string{evil}}),
	}
}

func many(n int) []client.JobReport {
	var all []client.JobReport
	for i := range n {
		all = append(all, client.JobReport{Job: job.ID(fmt.Sprint("ing_", i)), State: "Completed", Outcome: "ok",
			Title: fmt.Sprint("Object ", i), ARK: "ark:/1/a", Version: 1})
	}
	return all
}

func (w *harness) page(path string) (*http.Response, string) {
	w.T.Helper()
	r := w.Request(http.MethodGet, path, "")
	r.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	answer, text := w.Ask(r)
	servertest.CheckHeaders(w.T, answer)
	return answer, text
}

// TestDepositorsPage reads the page of a batch whose every text is hostile.
func TestDepositorsPage(t *testing.T) {
	w := open(t, func(o *options) { o.Ingest = &reporter{report: hostile()} }, nil)
	id := w.Post(engine.Order{}).ID
	answer, text := w.page("/batches/" + string(id))
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("got %s, %s", answer.Status, answer.Header.Get("Content-Type"))
	}
	policy := answer.Header.Get("Content-Security-Policy")
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") ||
		!strings.Contains(policy, "style-src 'self'") {
		t.Errorf("the policy is %q", policy)
	}
	for _, never := range []string{"<script", "<img", "style=", "onerror=alert(1)>", "\u202e", "\x1b",
		strings.Repeat("long", 200), "http://", "https://"} {
		if strings.Contains(text, never) {
			t.Errorf("the page has %q", never)
		}
	}
	for _, want := range []string{
		"We are fetching your files.", "603 of 700 objects done", `<progress id="progress" max="700" value="603">`,
		`<html lang="en">`, `<meta http-equiv="refresh" content="30;url=?refresh=again">`,
		`<a href="?refresh=off">`, `<th scope="col" role="columnheader">`, `<th scope="row" role="rowheader">`,
		`data-label="What happens next: "`, "&lt;U&#43;202E&gt;", "Not stored (1)", "a file is missing",
		"Put it there.", "ark:/1/a",
		"These are the first 500 of 602.", "/report?format=csv-failed", "/report?format=text", "/report?format=json",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, tag := range []string{"main", "h1", "title", "thead", "nav"} {
		if !strings.Contains(text, "<"+tag+">") && !strings.Contains(text, "<"+tag+" ") {
			t.Errorf("the page has no %s", tag)
		}
	}
	if _, still := w.page("/batches/" + string(id) + "?refresh=off"); strings.Contains(still, "http-equiv") ||
		!strings.Contains(still, "keeps still") {
		t.Error("it does not keep still")
	}
	for _, path := range []string{"?refresh=on", "?refresh=off&refresh=off", "?x=1"} {
		if answer, _ := w.page("/batches/" + string(id) + path); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %s", path, answer.Status)
		}
	}
}

// TestDepositorsPageAtTheEnd shows that all is done, and does not reload.
func TestDepositorsPageAtTheEnd(t *testing.T) {
	done := client.BatchReport{State: "Completed", Expected: 2, Completed: 2, Jobs: many(2),
		Summary: "Everything is stored.", Next: "There is nothing for you to do."}
	w := open(t, func(o *options) { o.Ingest = &reporter{report: done, ended: true} }, servertest.Worked)
	w.Run()
	id := w.Post(engine.Order{}).ID
	if _, err := w.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	_, text := w.page("/batches/" + string(id))
	if strings.Contains(text, "http-equiv") || strings.Contains(text, "objects done") ||
		!strings.Contains(text, "Everything is stored.") || !strings.Contains(text, "Stored (2)") ||
		strings.Contains(text, "Not stored (") {
		t.Errorf("got %s", text)
	}
}

// TestLooksOfAPage: only a success has the style of one.
func TestLooksOfAPage(t *testing.T) {
	r := &reporter{ended: true}
	w := open(t, func(o *options) { o.Ingest = r }, servertest.Worked)
	w.Run()
	ended := w.Post(engine.Order{}).ID
	if _, err := w.Await(t.Context(), ended, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		report client.BatchReport
		want   string
	}{
		{client.BatchReport{State: "Completed", Expected: 1, Completed: 1}, "done"},
		{client.BatchReport{State: "Failed", Expected: 2, Completed: 1, Failed: 1}, "failed"},
		{client.BatchReport{State: "Failed"}, "failed"}, // its manifest could not be read
		{client.BatchReport{State: "Deleted"}, "open"},
		{client.BatchReport{State: "Completed", Expected: 2, Completed: 1, Pending: 1}, "open"}, // one is tried again
	} {
		r.report = c.report
		if _, text := w.page("/batches/" + string(ended)); !strings.Contains(text, `class="`+c.want+`"`) {
			t.Errorf("%+v is not of class %s", c.report, c.want)
		}
	}
}

// busy is an ingest that counts how many reports it makes at once, and makes none before the test releases it.
type busy struct {
	reporter
	mu        sync.Mutex
	now, most int
	came      chan struct{}
	free      chan struct{}
}

func (b *busy) Report(_ context.Context, id job.ID) (ingesthttp.Report, error) {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	b.came <- struct{}{}
	<-b.free
	b.mu.Lock()
	b.now--
	b.mu.Unlock()
	return ingesthttp.Report{Batch: client.BatchReport{Batch: id}}, nil
}

// TestManyReaders ask for pages and reports at once: few are made at a time, and all are made.
func TestManyReaders(t *testing.T) {
	const readers = 40
	b := &busy{came: make(chan struct{}, readers), free: make(chan struct{})}
	w := open(t, func(o *options) { o.Ingest = b }, nil)
	id := string(w.Post(engine.Order{}).ID)
	paths := []string{"/batches/" + id, "/api/v1/ingest/batches/" + id + "/report"}
	answers := make(chan string, readers)
	for i := range readers {
		r := w.Request(http.MethodGet, paths[i%len(paths)], "")
		go func() {
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			_ = answer.Body.Close()
			answers <- answer.Status
		}()
	}
	for range readers {
		<-b.came
		b.free <- struct{}{}
	}
	for range readers {
		if got := <-answers; got != "200 OK" {
			t.Errorf("got %s", got)
		}
	}
	if b.most == 0 || b.most > 4 {
		t.Errorf("%d reports were made at once", b.most)
	}
}

// TestLargePage is bounded for a batch of any size, and names what it leaves out.
func TestLargePage(t *testing.T) {
	large := client.BatchReport{State: "Failed", Expected: 10_000, Failed: 10_000,
		Summary: "None of your 10000 objects is stored."}
	for i := range 10_000 {
		one := client.JobReport{Job: job.ID(fmt.Sprint("ing_", i)), State: "Failed", Outcome: "failed", Title: "t",
			Message: "m", Reason: "gone", Next: "wait"}
		if i < 600 {
			one.Title, one.Message = strings.Repeat("<t>", 1000), strings.Repeat("<m>", 1000)
		}
		large.Jobs = append(large.Jobs, one)
	}
	w := open(t, func(o *options) { o.Ingest = &reporter{report: large} }, servertest.Worked)
	w.Run()
	id := w.Post(engine.Order{}).ID
	if _, err := w.Await(t.Context(), id, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	_, text := w.page("/batches/" + string(id))
	if len(text) > 3<<20 || !strings.Contains(text, "Not stored (10000)") ||
		!strings.Contains(text, "These are the first 500 of 10000.") ||
		!strings.Contains(text, "/report?format=csv-failed\">All of them") ||
		strings.Count(text, "<tr role=\"row\"><th scope=\"row\"") != 500 {
		t.Errorf("got %d bytes: %.3000s", len(text), text)
	}
}

// TestPagesThatCannotBeShown are plain words for a browser and a problem for a program.
func TestPagesThatCannotBeShown(t *testing.T) {
	w := open(t, nil, nil)
	answer, text := w.page("/batches/let_nobody")
	if answer.StatusCode != http.StatusNotFound || !strings.Contains(text, "There is no submission with this number") ||
		!strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	w.Problem(w.Request(http.MethodGet, "/batches/let_nobody", ""), http.StatusNotFound, job.NotFound)
	if answer, text := w.Ask(w.Request(http.MethodGet, "/assets/depositor.css",
		"")); answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/css; charset=utf-8" ||
		!strings.Contains(text, "--ground") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	for _, name := range []string{"batch.html", "none.css", "..%2fpage.go", "%2e%2e%2fpage.go", "depositor.css%00"} {
		w.Problem(w.Request(http.MethodGet, "/assets/"+name, ""), http.StatusNotFound, job.NotFound)
	}
}

// TestSlowReaderOfAReport gets a large report whole though it takes longer than answers usually may. The control is a
// handler that gives no more time.
func TestSlowReaderOfAReport(t *testing.T) {
	large := client.BatchReport{Note: strings.Repeat("x", 12<<20)}
	w := open(t, func(o *options) { o.Ingest = &reporter{report: large} }, nil)
	id := string(w.Post(engine.Order{}).ID)
	mux := http.NewServeMux()
	mux.Handle("/", w.Server)
	mux.HandleFunc("/hasty", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 12<<20)) })
	web := httptest.NewUnstartedServer(nil)
	web.Config = listen.HTTP(mux, servertest.Discard)
	web.Config.WriteTimeout = 20 * time.Millisecond
	web.Start()
	defer web.Close()
	read := func(path string) (n int64, err error) {
		answer, err := http.Get(web.URL + path)
		if err != nil {
			return 0, err
		}
		defer answer.Body.Close()
		<-time.After(100 * time.Millisecond) // a slow reader is what is tested
		return io.Copy(io.Discard, answer.Body)
	}
	if n, err := read("/api/v1/ingest/batches/" + id + "/report"); err != nil || n < 12<<20 {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if n, err := read("/hasty"); err == nil {
		t.Errorf("the control got %d bytes", n)
	}
}

// TestReportForms asks for a report in each form, by parameter and by header.
func TestReportForms(t *testing.T) {
	w := open(t, func(o *options) { o.Ingest = &reporter{} }, nil)
	for _, c := range []struct{ query, accept, kind, text string }{
		{"?format=json", "text/plain", "application/json", `"batch":"bat_1"`}, {"?format=text", "",
			"text/plain; charset=utf-8", "as text"},
		{"?format=html", "", "text/html; charset=utf-8", "<p>as HTML</p>"}, {"?format=csv-completed", "",
			"text/csv; charset=utf-8; header=present", "completed=true"},
		{"?format=csv-failed", "", "text/csv; charset=utf-8; header=present", "completed=false"}, {"", "",
			"application/json", `"batch"`},
		{"", "text/plain", "text/plain; charset=utf-8", "as text"}, {"", "text/html, */*", "text/html; charset=utf-8",
			"as HTML"},
		{"", "text/plain, application/json", "application/json", `"batch"`},
	} {
		r := w.Request(http.MethodGet, "/api/v1/ingest/batches/bat_1/report"+c.query, "")
		if c.accept != "" {
			r.Header.Set("Accept", c.accept)
		}
		answer, text := w.Ask(r)
		servertest.CheckHeaders(t, answer)
		if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != c.kind ||
			!strings.Contains(text, c.text) {
			t.Errorf("%s, %q: got %s, %s: %s", c.query, c.accept, answer.Status, answer.Header.Get("Content-Type"),
				text)
		}
		if attached := answer.Header.Get("Content-Disposition"); strings.Contains(c.kind,
			"csv") != strings.HasPrefix(attached, `attachment; filename="bat_1-`) {
			t.Errorf("%s: Content-Disposition is %q", c.query, attached)
		}
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/ingest/batches/bat_1/report?format=exe", ""), http.StatusBadRequest,
		job.Invalid)
	text, err := w.Client.BatchReportAs(t.Context(), "bat_1", "csv-failed")
	if err != nil || !strings.Contains(string(text), "completed=false") {
		t.Errorf("got %q, %v", text, err)
	}
	bare := open(t, nil, nil) // its ingest has text and JSON only
	bare.Problem(bare.Request(http.MethodGet,
		"/api/v1/ingest/batches/"+string(bare.Post(engine.Order{}).ID)+"/report?format=html", ""),
		http.StatusServiceUnavailable, job.Unavailable)
}

// TestContrast holds every pair of text and ground of the style sheet against WCAG 2.1 AA: 4.5 to 1, in light and in
// dark.
func TestContrast(t *testing.T) {
	text, err := os.ReadFile("../../../server/pages/depositor.css")
	if err != nil {
		t.Fatal(err)
	}
	schemes := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(string(text), -1)
	if len(schemes) != 3 {
		t.Fatalf("got %d schemes, want light, dark and print", len(schemes))
	}
	for i, scheme := range schemes {
		colours := map[string]string{}
		for _, c := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{6})`).FindAllStringSubmatch(scheme[1], -1) {
			colours[c[1]] = c[2]
		}
		for _, front := range []string{"text", "quiet", "link"} {
			for _, ground := range []string{"ground", "open", "done", "failed"} {
				// of a colour that is missing it is not a number
				if ratio := svgtest.Contrast(colours[front], colours[ground]); !(ratio >= 4.5) {
					t.Errorf("scheme %d: %s on %s is %.1f to 1", i, front, ground, ratio)
				}
			}
		}
	}
}
