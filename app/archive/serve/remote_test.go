package archiveserve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/quizworker"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// workerServer names the server of a PDF worker that this program then is.
const workerServer = "STAGEPOST_TEST_PDF_SERVER"

func TestMain(m *testing.M) {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	if url := os.Getenv(workerServer); url != "" {
		if err := printFor(context.Background(), url, "first", os.TempDir(), stuck{}); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// printFor is a PDF worker over HTTP.
func printFor(ctx context.Context, url, name, temp string, p pdf.Printer) error {
	api, err := client.New(url, client.Options{})
	if err != nil {
		return err
	}
	defer api.Close()
	return pdf.NewWorker(api, pdf.Remote(api, name), p, pdf.WorkerOptions{
		Name: name, Parallel: 2, Lease: time.Second, Temp: temp,
	}).Run(ctx)
}

// stuck prints a line when it begins, and never ends.
type stuck struct{}

func (stuck) Render(ctx context.Context, _ string, _ pdf.Page, _ io.Reader, _ io.Writer) error {
	fmt.Println("printing")
	<-ctx.Done()
	return ctx.Err()
}

// capitals prints documents in capitals.
type capitals struct{}

func (capitals) Render(_ context.Context, _ string, _ pdf.Page, in io.Reader, out io.Writer) error {
	text, err := io.ReadAll(in)
	if err == nil {
		_, err = io.WriteString(out, strings.ToUpper(string(text)))
	}
	return err
}

// printing starts a PDF worker in this process, which ends with the test or by stop.
func (f *fixture) printing(p pdf.Printer) (stop func()) {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- printFor(ctx, f.server.URL, "second", f.t.TempDir(), p) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			f.t.Error(err)
		}
	}
}

// TestPDFWorkerKilled: a worker in another process is killed while it prints. Another one prints the file, and the
// Moodle that waits for it receives its archive once.
func TestPDFWorkerKilled(t *testing.T) {
	f, m := newFixture(t), newMoodle(t)
	f.configure(f.quizConfig(m))
	f.remote, f.quiz = true, "127.0.0.1:0"
	must(t, f.start())
	first := exec.Command(os.Args[0], "-test.run=^$")
	first.Env = append(os.Environ(), workerServer+"="+f.server.URL)
	first.Stderr = t.Output()
	out, err := first.StdoutPipe()
	must(t, err)
	must(t, first.Start())
	if code := m.order(f.server.Address("quizworker") + "/" + quizToken); code != 200 {
		t.Errorf("got %d", code)
	}
	if _, err := io.ReadFull(out, make([]byte, len("printing\n"))); err != nil {
		t.Error(err)
	}
	must(t, first.Process.Kill())
	if err := first.Wait(); err == nil || errors.Is(err, exec.ErrWaitDelay) {
		t.Errorf("it was not killed: %v", err)
	}
	if m.archive() != nil {
		t.Error("control: the archive exists before the file is printed")
	}
	defer f.printing(capitals{})()
	f.until("an archive in the Moodle", func() bool { return m.archive() != nil })
	if text := m.archive()["attempts/ann/2/attempt-2.pdf"]; !strings.Contains(text, "<P>ANSWER") {
		t.Errorf("got %v", m.archive())
	}
	if n := m.archives(); n != 1 {
		t.Errorf("the Moodle received %d archives", n)
	}
}

// TestPrinterTokens: the token that a quiz archive worker got with a document is refused as soon as the job that
// ordered it is cancelled, while the worker still prints. The log has that, with a bound. The control is the same
// request before.
func TestPrinterTokens(t *testing.T) {
	f, m, ask := newFixture(t), newMoodle(t), make(chan string, 1)
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"status": "RUNNING"}`)
			return
		}
		var o struct {
			Task int               `json:"taskid"`
			API  map[string]string `json:"moodle_api"`
		}
		_ = json.NewDecoder(r.Body).Decode(&o) // max_upload_bytes is no text
		select {
		case ask <- fmt.Sprintf("/moodle/webservice/rest/server.php?wsfunction="+
			"archivingmod_quiz_generate_attempt_report&attemptid=1&taskid=%d&wstoken=%s", o.Task, o.API["wstoken"]):
		default:
		}
		fmt.Fprint(w, `{"jobid": "j-1"}`)
	}))
	defer worker.Close()
	f.configure(f.quizConfig(m) + fmt.Sprintf("printers: [{url: %q, callback: \"http://127.0.0.1:1\"}]\n", worker.URL))
	f.quiz = "127.0.0.1:0"
	must(t, f.start())
	at := f.server.Address("quizworker")
	if code := m.order(at + "/" + quizToken); code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	var query string
	select {
	case query = <-ask:
	case <-time.After(guard):
		t.Fatal("the worker got no order")
	}
	if _, text := get(t, at+query); !strings.Contains(text, "Answer") || f.log.count("msg=refused") > 0 {
		t.Fatalf("control: %s", text)
	}
	page, err := f.server.Engine.Store().List(t.Context(), job.Query{Kinds: []job.Kind{quizworker.Kind}})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("got %v, %v", page.Jobs, err)
	}
	_, err = f.server.Engine.Do(t.Context(), operator.Act{
		Job: page.Jobs[0].ID, Event: quizworker.Cancel, By: lifecycle.Operator, Actor: "ops", Confirm: true,
	})
	must(t, err)
	if _, text := get(t, at+query); !strings.Contains(text, "invalidtoken") || strings.Contains(text, "Answer") {
		t.Errorf("after the end: %s", text)
	}
	if n := f.log.count("msg=refused"); n != 1 {
		t.Errorf("the log has %d lines about it", n)
	}
	for range 20 {
		get(t, at+query)
	}
	if n := f.log.count("msg=refused"); n < 2 || n > 11 { // one more if the test takes a minute
		t.Errorf("the log has %d lines about 21 requests", n)
	}
}

// TestPrinters: a quiz archive worker of archive.yaml gets orders, and reads the documents under the address that the
// configuration names.
func TestPrinters(t *testing.T) {
	f, m, report := newFixture(t), newMoodle(t), make(chan string, 1)
	var address atomic.Pointer[string]
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, err := url.Parse(*address.Load())
		must(t, err)
		httputil.NewSingleHostReverseProxy(to).ServeHTTP(w, r)
	}))
	defer door.Close()
	worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var o struct {
			Task int               `json:"taskid"`
			API  map[string]string `json:"moodle_api"`
		}
		_ = json.NewDecoder(r.Body).Decode(&o) // max_upload_bytes is no text
		status, text := get(t, fmt.Sprintf("%s?wsfunction=archivingmod_quiz_generate_attempt_report&attemptid=1"+
			"&taskid=%d&wstoken=%s", o.API["webservice_url"], o.Task, o.API["wstoken"]))
		select {
		case report <- fmt.Sprint(status, text):
		default:
		}
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer worker.Close()
	f.configure(f.quizConfig(m) + fmt.Sprintf("printers: [{url: %q, callback: %q}]\n", worker.URL, door.URL))
	if err := f.start(); err == nil || !strings.Contains(err.Error(), "archive.quizworker.listen") {
		t.Errorf("without an address: %v", err)
	}
	f.quiz = "127.0.0.1:0"
	must(t, f.start())
	at := f.server.Address("quizworker")
	address.Store(&at)
	if code := m.order(at + "/" + quizToken); code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	select {
	case got := <-report:
		if !strings.HasPrefix(got, "200") || !strings.Contains(got, "Answer") {
			t.Errorf("got %s", got)
		}
	case <-time.After(guard):
		t.Error("the worker got no order")
	}
}
