package quizworker

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

func TestMain(m *testing.M) {
	sandbox.Init() // returns, but in the processes that run commands for the sandbox
	os.Exit(m.Run())
}

// rendering prints at once.
type rendering struct {
	*pdf.Renderer
	temp string
}

func (r rendering) Print(ctx context.Context, _ job.ID, p pdf.Page, document io.Reader, out io.Writer) error {
	dir, err := os.MkdirTemp(r.temp, "")
	if err != nil {
		return err
	}
	return r.Render(ctx, dir, p, document, out)
}

func (rendering) Remove(context.Context, job.ID) error { return nil }

// TestReal archives an attempt by the real programs: the ZIP file has a PDF/A file.
func TestReal(t *testing.T) {
	box, err := sandbox.Open(t.Context(), sandbox.Options{Tier: sandbox.Require, Name: "stagepost-quiztest"})
	if err != nil {
		t.Skip("no sandbox confines commands on this machine:", err)
	}
	defer box.Close()
	printer, err := pdf.Find(box, pdf.Options{})
	if err != nil {
		t.Skip(err)
	}
	p := newPlugin()
	a, err := New(Options{
		Dir: t.TempDir(), Transport: p, Printer: rendering{printer, t.TempDir()}, Tokens: []string{"secret"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	e, err := engine.New(mem.New(), a.Works(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a.Bind(e)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	h := &harness{App: a, t: t}
	j, err := h.find(ctx, h.order("/archive/archivingmod_quiz", modern(map[string]any{"attemptids": []int{2}})))
	if err != nil {
		t.Fatal(err)
	}
	patience, end := context.WithTimeout(ctx, 5*time.Minute)
	defer end()
	j, err = e.Await(patience, j.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil || j.State != Finished {
		t.Fatalf("got %s: %s, %v", j.State, j.Message, err)
	}
	stop()
	if err := <-done; err != nil && job.KindOf(err) != job.Unavailable {
		t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := unzip(t, p.taken[0])["attempts/ann/Try/attempt-2.pdf"]; !strings.Contains(text, "pdfaid:part='3'") {
		t.Errorf("got %.100q", text)
	}
}
