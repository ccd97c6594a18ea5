package legacy

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
)

// secret is a client that has lost its database: it gives id 1 a second time and has results for it before its answer
// to the submission is read.
func secret(t *testing.T, submitted chan<- struct{}, answer <-chan struct{}) *Client {
	t.Helper()
	var results bytes.Buffer
	z := zip.NewWriter(&results)
	f, err := z.Create("secret.txt")
	if err == nil {
		_, err = io.WriteString(f, "secret")
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /submit", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		submitted <- struct{}{}
		<-answer
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":1,"input":{},"status":"Prepared","loc":"","pid":0,"killed":false}`)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/zip")
		w.Write(results.Bytes())
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	at, err := wire.AgentAt(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Options{Endpoints: at, Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type script struct{ io.ReadSeeker }

func (script) Close() error { return nil }

// While a submission has no answer, the client may have given any id to it: what is under an id goes to no one until
// the answer is known (W24).
func TestIDGivenMeanwhile(t *testing.T) {
	submitted, answer := make(chan struct{}, 1), make(chan struct{})
	c := secret(t, submitted, answer)
	old := compute.Handle{Ticket: compute.Ticket{Job: "cmp_old", Attempt: 1}, Remote: "1", Instance: Instance}
	briefly := func() context.Context {
		ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		t.Cleanup(stop)
		return ctx
	}
	if said, err := c.Query(t.Context(), old); err != nil || said.Standing != compute.Ended || !said.HasResult {
		t.Fatalf("control: before the submission: %+v, %v", said, err)
	}
	done := make(chan error, 1)
	go func() {
		p := &compute.Parcel{Ticket: compute.Ticket{Job: "cmp_new", Attempt: 1},
			Files: []compute.File{{Name: "run.sh", Size: 4}}}
		p.Open = func(string) (io.ReadSeekCloser, error) { return script{strings.NewReader("true")}, nil }
		_, err := c.Submit(t.Context(), p)
		done <- err
	}()
	<-submitted
	if said, err := c.Query(briefly(), old); err != nil || said.Standing != compute.Works {
		t.Errorf("Query while the id is not known: %+v, %v", said, err)
	}
	for name, get := range map[string]func(context.Context, compute.Handle) (io.ReadCloser, error){"Results": c.Results,
		"Partial": c.Partial} {
		if r, err := get(briefly(), old); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s while the id is not known: %v, %v", name, r, err)
		}
	}
	close(answer)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if said, err := c.Query(t.Context(), old); err != nil || said.Standing != compute.Lost {
		t.Errorf("Query when the id is known: %+v, %v", said, err)
	}
	if _, err := c.Results(t.Context(), old); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("Results when the id is known: %v", err)
	}
}
