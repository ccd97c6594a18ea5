package archiveserve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// capitals prints documents in capitals.
type capitals struct{}

func (capitals) Render(_ context.Context, _ string, _ pdf.Page, document io.Reader, out io.Writer) error {
	text, err := io.ReadAll(document)
	if err == nil {
		_, err = out.Write(bytes.ToUpper(text))
	}
	return err
}

// TestLocalWorker: the worker of the server prints what is ordered, at once; the setting off is none.
func TestLocalWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		p, err := openPrinters(dir, filepath.Join(dir, printingName), 0, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if p.worker != nil {
			t.Fatal("a worker runs although archive.pdf.workers is off")
		}
		p.worker = pdf.NewWorker(p.claims, p.App, capitals{}, pdf.WorkerOptions{Parallel: 2, Temp: t.TempDir()})
		e, err := engine.New(mem.New(), p.Works(), engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p.Bind(e)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- e.Run(ctx) }()
		go func() { ended <- p.worker.Run(ctx) }()
		synctest.Wait()
		began := time.Now()
		var ids []job.ID
		for n := range 5 {
			j, err := p.Order(ctx, "arc_1", "ann", fmt.Sprint(n, ".html"), pdf.Page{}, strings.NewReader("text"))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, j.ID)
		}
		for _, id := range ids {
			j, err := e.Await(ctx, id, func(j *job.Job) bool { return j.Ended })
			if err != nil {
				t.Fatal(err)
			}
			f, _, err := p.Result(&j)
			if err != nil {
				t.Fatal(err, j.State, j.Message)
			}
			text, err := io.ReadAll(f)
			if f.Close(); err != nil || string(text) != "TEXT" {
				t.Errorf("got %q, %v", text, err)
			}
		}
		if took := time.Since(began); took >= claimEvery {
			t.Errorf("the worker found the jobs after %s: an order does not wake it", took)
		}
		stop()
		for range 2 {
			if err := <-ended; err != nil && job.KindOf(err) != job.Unavailable {
				t.Error(err)
			}
		}
	})
}

// TestLocalWorkerPrints prints a report by the programs of this machine, as PDF/A.
func TestLocalWorkerPrints(t *testing.T) {
	p, err := openPrinters(t.TempDir(), filepath.Join(t.TempDir(), printingName), 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Skip(err)
	}
	e, err := engine.New(mem.New(), p.Works(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p.Bind(e)
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	ended := make(chan error, 2)
	go func() { ended <- e.Run(ctx) }()
	go func() { ended <- p.worker.Run(ctx) }()
	defer func() {
		stop()
		for range 2 {
			<-ended
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	var j job.Job
	for { // the engine may not run yet
		j, err = p.Order(ctx, "arc_1", "ann", "a.html", pdf.Page{}, strings.NewReader("<!DOCTYPE html><p>Report"))
		if job.KindOf(err) != job.Unavailable || ctx.Err() != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	if j, err = e.Await(ctx, j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	f, _, err := p.Result(&j)
	if err != nil {
		t.Fatal(err, j.State, j.Message)
	}
	text, err := io.ReadAll(f)
	if f.Close(); err != nil || !bytes.Contains(text, []byte("pdfaid:part='3'")) {
		t.Errorf("it is no PDF/A file: %v", err)
	}
}
