package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/crash"
	"github.com/stagepost/stagepost/store/mem"
)

// putAttempt is an attempt of a fake source: its report, and an HTML file that a student uploaded.
func putAttempt(ctx context.Context, item source.Item, text string, out source.Out) error {
	for _, name := range []string{item.Key + ".html", "attachments/1/answer.html"} {
		origin := source.Origin{Person: item.Person}
		err := out.Put(ctx, "attempts/"+item.Key+"/"+name, &origin, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// prints is a Printer that prints documents in capitals after some orders, and keeps them in memory.
type prints struct {
	mu      sync.Mutex
	slow    int                        // orders of a document until it is printed
	states  map[string]lifecycle.State // by file: the state in which its job ends; else Rendered
	orders  map[string]int             // by file and content
	bodies  map[job.ID][]byte
	removed []job.ID

	onRemove func(parent job.ID) // may be nil
	point    func() error        // called at each order; may be nil

	onResult func() // may be nil
}

func newPrints(slow int) *prints {
	return &prints{
		slow: slow, states: map[string]lifecycle.State{}, orders: map[string]int{}, bodies: map[job.ID][]byte{},
	}
}

func (p *prints) Order(
	_ context.Context, parent job.ID, _, file string, _ pdf.Page, document io.Reader,
) (job.Job, error) {
	text, err := io.ReadAll(document)
	if err != nil {
		return job.Job{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.point != nil {
		if err := p.point(); err != nil {
			return job.Job{}, err
		}
	}
	id := job.ID("pdf_" + hash([]string{string(parent), file, string(text)}))
	j := job.Job{ID: id}
	j.State = pdf.Rendering
	if p.orders[string(id)]++; p.orders[string(id)] > p.slow {
		j.State = pdf.Rendered
		if s, ok := p.states[file]; ok {
			j.State, j.Cause, j.Message = s, pdf.CauseRender, "it ended by SIGSEGV"
		}
		p.bodies[id] = bytes.ToUpper(text)
	}
	return j, nil
}

func (p *prints) Result(j *job.Job) (io.ReadCloser, pdf.Result, error) {
	if p.onResult != nil {
		p.onResult()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	body := p.bodies[j.ID]
	sum := sha256.Sum256(body)
	r := pdf.Result{Size: int64(len(body)), SHA256: hex.EncodeToString(sum[:])}
	return io.NopCloser(bytes.NewReader(body)), r, nil
}

func (p *prints) Remove(_ context.Context, parent job.ID) error {
	if p.onRemove != nil {
		p.onRemove(parent)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removed = append(p.removed, parent)
	return nil
}

// withPDF is a request whose attempts get PDF files.
func withPDF(word string) Request {
	return Request{Settings: Settings{Content: source.Settings{PDF: word}, Pack: settings.PackNone}}
}

// pdfs lists the PDF files in a location with their content, by the ends of their names.
func (h *harness) pdfs(dir string) (names []string) {
	h.t.Helper()
	for _, one := range digests(h.t, filepath.Join(dir, "near")) {
		name, _, _ := strings.Cut(one, " ")
		if strings.HasSuffix(name, ".pdf") {
			_, name, _ = strings.Cut(name, "attempts/")
			names = append(names, name)
		}
	}
	return names
}

// TestPDF: each report of an attempt gets a PDF file beside it, and nothing else does; the job waits while they are
// printed, and fetches nothing again.
func TestPDF(t *testing.T) {
	for _, c := range []struct {
		word string
		want []string
	}{
		{settings.PDFOff, nil},
		{settings.PDFOn, []string{"item-0/item-0.pdf", "item-1/item-1.pdf"}},
		{settings.PDFRequired, []string{"item-0/item-0.pdf", "item-1/item-1.pdf"}},
	} {
		t.Run(c.word, func(t *testing.T) {
			src, p, dir := newFake(1, 2), newPrints(3), quickDir(t)
			src.attempts = true
			synctest.Test(t, func(t *testing.T) {
				h := start(t, mem.New(), dir, src, func(o *Options) { o.PDF = p })
				defer h.stop()
				j := h.end(h.submit(withPDF(c.word)).ID)
				if j.State != Completed {
					t.Fatalf("got %s: %s", j.State, j.Message)
				}
				if got := h.pdfs(dir); !slices.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				for key, n := range src.fetched {
					if n != 1 {
						t.Errorf("%s was fetched %d times", key, n)
					}
				}
				if !slices.Contains(p.removed, j.ID) {
					t.Error("the files of its PDF jobs remain")
				}
			})
		})
	}
}

// TestPDFFailure: an attempt that cannot be printed fails a job that requires its PDF file, and warns where it does
// not.
func TestPDFFailure(t *testing.T) {
	for _, c := range []struct {
		word    string
		state   lifecycle.State // of the PDF job
		want    lifecycle.State
		warning bool
	}{
		{settings.PDFOn, pdf.Rendered, Completed, false},
		{settings.PDFOn, pdf.Failed, Completed, true},
		{settings.PDFOn, pdf.Cancelled, Completed, true},
		{settings.PDFRequired, pdf.Rendered, Completed, false},
		{settings.PDFRequired, pdf.Failed, Failure, false},
		{settings.PDFRequired, pdf.Cancelled, Failure, false},
	} {
		t.Run(c.word+" "+string(c.state), func(t *testing.T) {
			src, p := newFake(1, 2), newPrints(1)
			src.attempts = true
			p.states["attempts/item-0/item-0.html"] = c.state
			bubble(t, src, func(o *Options) { o.PDF = p }, func(h *harness) {
				j := h.end(h.submit(withPDF(c.word)).ID)
				if !slices.Contains(p.removed, j.ID) {
					t.Error("its PDF jobs are not cancelled, and their files remain")
				}
				if j.State != c.want || (c.want == Failure) != (causeOf(t, &j) == pdf.CauseRender) {
					t.Fatalf("got %s (%s): %s", j.State, causeOf(t, &j), j.Message)
				}
				tasks, err := h.store.Tasks(t.Context(), j.ID)
				if err != nil {
					t.Fatal(err)
				}
				var d extracted
				for _, one := range tasks {
					if one.Name == activityTask+"1" {
						if err := json.Unmarshal(one.Data, &d); err != nil {
							t.Fatal(err)
						}
					}
				}
				if c.warning != (len(d.Warnings) == 1) {
					t.Errorf("warnings %v", d.Warnings)
				}
			})
		})
	}
}

// TestPDFCancel: a job that is cancelled while files are printed cancels the jobs that print them.
func TestPDFCancel(t *testing.T) {
	src, p := newFake(1, 2), newPrints(1<<30)
	src.attempts = true
	bubble(t, src, func(o *Options) { o.PDF = p }, func(h *harness) {
		j := h.submit(withPDF(settings.PDFRequired))
		time.Sleep(time.Minute)
		if len(p.removed) > 0 {
			t.Error("control: they are cancelled before")
		}
		act := operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Operator, Actor: "ops", Confirm: true}
		if _, err := h.engine.Do(t.Context(), act); err != nil {
			t.Fatal(err)
		}
		if j = h.end(j.ID); j.State != Cancelled || !slices.Contains(p.removed, j.ID) {
			t.Errorf("got %s; cancelled: %v", j.State, p.removed)
		}
	})
}

// TestPDFRevoked (B3): the jobs that print files of a job which failed, was cancelled or timed out are cancelled in
// ErrorHandling: their claims and tokens give access to documents. It is before anything else is reverted, and not
// before the end.
func TestPDFRevoked(t *testing.T) {
	for _, want := range []lifecycle.State{Failure, Cancelled, Timeout} {
		src, p := newFake(1, 2), newPrints(1<<30)
		src.attempts = true
		bubble(t, src, func(o *Options) { o.PDF = p }, func(h *harness) {
			var at []string
			p.onRemove = func(id job.ID) {
				j, err := h.store.Get(t.Context(), id)
				if err != nil {
					t.Error(err)
				}
				at = append(at, string(j.State))
			}
			r := withPDF(settings.PDFRequired)
			r.Settings.Deadline = "1h"
			if want == Failure {
				p.states["attempts/item-0/item-0.html"], p.slow = pdf.Failed, 1
			}
			j := h.submit(r)
			if want == Cancelled {
				time.Sleep(time.Minute)
				act := operator.Act{Job: j.ID, Event: Cancel, By: lifecycle.Operator, Actor: "ops", Confirm: true}
				if _, err := h.engine.Do(t.Context(), act); err != nil {
					t.Fatal(err)
				}
			}
			if j = h.end(j.ID); j.State != want {
				t.Errorf("got %s, want %s: %s", j.State, want, j.Message)
			}
			if len(at) == 0 || at[0] != string(ErrorHandling) || at[len(at)-1] != string(Cleanup) {
				t.Errorf("%s: revoked in %q", want, at)
			}
		})
	}
}

// TestPDFRefused: a server without PDF workers refuses the setting at once.
func TestPDFRefused(t *testing.T) {
	bubble(t, newFake(1, 1), nil, func(h *harness) {
		for _, word := range []string{settings.PDFOn, settings.PDFRequired, "sometimes"} {
			r := withPDF(word)
			r.Source, r.Course = "campus", "5"
			if _, err := h.Submit(t.Context(), r, Ordered{}); job.KindOf(err) != job.Invalid {
				t.Errorf("%s: got %v", word, err)
			}
		}
		if j := h.end(h.submit(withPDF(settings.PDFOff)).ID); j.State != Completed {
			t.Errorf("control: got %s", j.State)
		}
	})
}

// TestPDFOfDamagedReport: a report that is damaged in the working directory is fetched again. If it has another content
// then, its PDF file is printed again; the other PDF files stay.
func TestPDFOfDamagedReport(t *testing.T) {
	src, p, dir := newFake(1, 2), newPrints(1), quickDir(t)
	src.attempts = true
	synctest.Test(t, func(t *testing.T) {
		h := start(t, mem.New(), dir, src, func(o *Options) { o.PDF = p })
		defer h.stop()
		p.onResult = sync.OnceFunc(func() {
			src.mu.Lock()
			defer src.mu.Unlock()
			src.files["1"]["item-0"] = "another answer"
			all, err := filepath.Glob(filepath.Join(
				h.workDir(), "*", workdir.ContentName, "*", "*", "attempts", "*", "item-0.html",
			))
			if err != nil || len(all) != 1 {
				t.Errorf("got %v, %v", all, err)
				return
			}
			if err := os.WriteFile(all[0], []byte("damaged"), 0o600); err != nil {
				t.Error(err)
			}
		})
		j := h.end(h.submit(withPDF(settings.PDFRequired)).ID)
		if j.State != Completed {
			t.Fatalf("got %s: %s", j.State, j.Message)
		}
		sum := sha256.Sum256([]byte("ANOTHER ANSWER"))
		want := "item-0.pdf " + hex.EncodeToString(sum[:])
		all := digests(t, filepath.Join(dir, "near"))
		if !slices.ContainsFunc(all, func(one string) bool { return strings.HasSuffix(one, want) }) {
			t.Errorf("got %v", all)
		}
		if got := h.pdfs(dir); !slices.Equal(got, []string{"item-0/item-0.pdf", "item-1/item-1.pdf"}) {
			t.Errorf("got %v", got)
		}
	})
}

// causeOf gives the cause of the last failure of a job; empty: there was none.
func causeOf(t *testing.T, j *job.Job) string {
	t.Helper()
	var d data
	if err := decode(j.Data, &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Errors) == 0 {
		return ""
	}
	return d.Errors[len(d.Errors)-1].Cause
}

// TestPDFCrash simulates a crash before and after each order of a PDF file, and each commit while files are printed,
// and starts again. The job completes with each PDF file once, and nothing is fetched twice after it was complete.
func TestPDFCrash(t *testing.T) {
	report := crash.Windows("archive with PDF files", func(f *crash.Fuse) (faults []string) {
		synctest.Test(t, func(t *testing.T) { faults = crashPDF(t, f) })
		return faults
	})
	t.Log(report)
	if report.Inconsistent > 0 || report.Windows < 20 {
		t.Errorf("%d windows: %s", report.Windows, strings.Join(report.Faults, "\n"))
	}
}

// printingStore is a store whose commits can crash after the first order of a PDF file.
type printingStore struct {
	job.Store
	fuse *crash.Fuse
	on   func() bool
}

func (s printingStore) call(do func() error) error {
	if s.fuse.Blown() {
		return crash.ErrStopped
	}
	if s.on() {
		return s.fuse.Call(do)
	}
	return do()
}

func (s printingStore) Claim(ctx context.Context, c job.Claim) (jobs []job.Job, err error) {
	if s.fuse.Blown() {
		return nil, crash.ErrStopped
	}
	return s.Store.Claim(ctx, c)
}

func (s printingStore) Commit(ctx context.Context, changes ...job.Change) (results []job.Result, err error) {
	err = s.call(func() (err error) {
		results, err = s.Store.Commit(ctx, changes...)
		return err
	})
	if err != nil {
		results = nil
	}
	return results, err
}

func crashPDF(t *testing.T, f *crash.Fuse) (faults []string) {
	store, dir, src, p := mem.New(), quickDir(t), newFake(1, 2), newPrints(1)
	src.attempts = true
	p.point = func() error { return f.Call(func() error { return nil }) }
	with := func(o *Options) { o.PDF = p }
	commits := 0
	first := start(t, printingStore{store, f, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.orders) > 0 {
			commits++
		}
		return commits > 0 && commits <= 12
	}}, dir, src, with)
	r := withPDF(settings.PDFRequired)
	r.Source, r.Course = "campus", "5"
	j, err := first.Submit(t.Context(), r, Ordered{})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	first.stop()

	p.point = nil
	second := start(t, store, dir, src, with)
	defer second.stop()
	j = second.end(j.ID)
	if got := second.pdfs(dir); j.State != Completed || len(got) != 2 {
		faults = append(faults, string(j.State)+" "+j.Message+" "+strings.Join(got, " "))
	}
	for key, n := range src.fetched {
		if n > 1 {
			faults = append(faults, key+" was fetched again")
		}
	}
	return faults
}
