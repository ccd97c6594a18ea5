package archivehttp_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	archivehttp "github.com/stagepost/stagepost/app/archive/http"
	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestPrinting: the holder of the claim alone gets the document and sends the file; a file with another digest or
// length is refused, and so is the report without the file.
func TestPrinting(t *testing.T) {
	h := open(t)
	j, err := h.pdfs.Order(t.Context(), "arc_1", "ann", "a.html", pdf.Page{}, strings.NewReader("<p>Answer"))
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := h.Client.Claim(t.Context(), client.Claim{Worker: "a", N: 1, Lease: 3600,
		From: []job.KindState{{Kind: pdf.Kind, State: pdf.Rendering}}})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("got %v, %v", jobs, err)
	}
	mine := job.Lease{Job: j.ID, Epoch: jobs[0].Epoch}
	for worker, l := range map[string]job.Lease{"b": mine, "a": {Job: j.ID, Epoch: mine.Epoch + 1}} {
		if _, err := h.Client.PDFDocument(t.Context(), worker, l.Job, l.Epoch); job.KindOf(err) != job.Stale {
			t.Errorf("document of %s %d: %v", worker, l.Epoch, err)
		}
		if err := h.Client.PutPDF(t.Context(), worker, l.Job, l.Epoch, []byte("PDF")); job.KindOf(err) != job.Stale {
			t.Errorf("file of %s %d: %v", worker, l.Epoch, err)
		}
	}
	f, err := h.Client.PDFDocument(t.Context(), "a", j.ID, mine.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "<p>Answer" {
		t.Errorf("got %s, %v", text, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	report := func() error {
		sum := sha256.Sum256([]byte("PDF"))
		data, _ := json.Marshal(pdf.Result{Size: 3, SHA256: hex.EncodeToString(sum[:])})
		_, err := h.Client.Report(t.Context(), client.Reports{Worker: "a",
			Reports: []client.Report{{Job: j.ID, Epoch: mine.Epoch, Data: data}}})
		return err
	}
	if err := report(); job.KindOf(err) != job.Refused {
		t.Errorf("a report without the file: %v", err)
	}
	sum := sha256.Sum256([]byte("PDF"))
	at := fmt.Sprintf("/api/v1/archive/pdf/%s/file?worker=a&epoch=%d&sha256=", j.ID, mine.Epoch)
	for sum, want := range map[string]string{strings.Repeat("0", 64): "not the one", "../x": "SHA-256", "": "SHA-256"} {
		p := h.Problem(h.Request(http.MethodPut, at+sum, "PDF"), http.StatusBadRequest, job.Invalid)
		if !strings.Contains(p.Detail, want) {
			t.Errorf("digest %q: %s", sum, p.Detail)
		}
	}
	h.Problem(h.Request(http.MethodPut, at+hex.EncodeToString(sum[:]), "PDF and more"), http.StatusBadRequest,
		job.Invalid)
	for range 2 { // it may be repeated
		if err := h.Client.PutPDF(t.Context(), "a", j.ID, mine.Epoch, []byte("PDF")); err != nil {
			t.Fatal(err)
		}
	}
	if err := report(); err != nil {
		t.Errorf("control: %v", err)
	}
	if _, err := h.Client.PDFDocument(t.Context(), "a", j.ID, mine.Epoch); job.KindOf(err) != job.Stale {
		t.Errorf("after the report: %v", err)
	}
}

// TestPrintingRevoked: when the job that ordered a file is cancelled or fails, the claim of a worker gives neither the
// document nor takes the file any more, although the printing job itself is not cancelled yet. The control is before.
func TestPrintingRevoked(t *testing.T) {
	for _, failed := range []bool{false, true} {
		h := open(t)
		order := func(parent job.ID) job.ID {
			t.Helper()
			j, err := h.pdfs.Order(t.Context(), parent, "ann", "a.html", pdf.Page{}, strings.NewReader("<p>Answer"))
			if err != nil {
				t.Fatal(err)
			}
			return j.ID
		}
		parent := order("arc_1") // any job can be one
		mine := order(parent)
		jobs, err := h.Client.Claim(t.Context(), client.Claim{Worker: "a", N: 2, Lease: 3600,
			From: []job.KindState{{Kind: pdf.Kind, State: pdf.Rendering}}})
		if err != nil || len(jobs) != 2 {
			t.Fatalf("got %v, %v", jobs, err)
		}
		epochs := map[job.ID]int64{}
		for _, j := range jobs {
			epochs[j.ID] = j.Epoch
		}
		access := func() (document, file error) {
			f, document := h.Client.PDFDocument(t.Context(), "a", mine, epochs[mine])
			if document == nil {
				document = f.Close()
			}
			return document, h.Client.PutPDF(t.Context(), "a", mine, epochs[mine], []byte("PDF"))
		}
		if document, file := access(); document != nil || file != nil {
			t.Errorf("control: %v, %v", document, file)
		}
		if failed {
			_, err = h.Client.Report(t.Context(), client.Reports{Worker: "a",
				Reports: []client.Report{{Job: parent, Epoch: epochs[parent], Fail: "it is damaged"}}})
		} else {
			act := operator.Act{Job: parent, Event: pdf.Cancel, By: lifecycle.Owner, Actor: "ann"}
			_, err = h.Engine.Do(t.Context(), act)
		}
		if err != nil {
			t.Fatal(err)
		}
		if document, file := access(); job.KindOf(document) != job.Stale || job.KindOf(file) != job.Stale {
			t.Errorf("failed %t: got %v, %v", failed, document, file)
		}
	}
}

// claimed is a job that each worker has claimed.
type claimed struct{ archivehttp.Printing }

func (claimed) Held(context.Context, string, job.Lease) (*api.Leased, error) {
	return &api.Leased{ID: "pdf_1", Kind: pdf.Kind, State: pdf.Rendering}, nil
}

func (claimed) Source(context.Context, *api.Leased) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("text")), nil
}

// TestPrintingTokens: the token of a worker for other jobs gives no access. The control is an admin.
func TestPrintingTokens(t *testing.T) {
	g := servertest.Guard(t, func(w *servertest.Harness) server.Part {
		return archivehttp.Part(w.Server, &application{pdfs: claimed{}})
	})
	for role, want := range map[identity.Role]int{identity.Worker: http.StatusForbidden,
		identity.Admin: http.StatusOK} {
		r := g.With(g.Tokens[role], http.MethodGet, "/api/v1/archive/pdf/pdf_1/document?epoch=1", "")
		if answer, text := g.Ask(r); answer.StatusCode != want {
			t.Errorf("%s: got %s: %s", role, answer.Status, text)
		}
	}
}
