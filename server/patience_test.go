package server_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestLongRequestsGetTheirAnswer lets a check, a submission and a long poll take longer than an answer usually may.
// The control is a handler that does not ask for more time.
func TestLongRequestsGetTheirAnswer(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	slow := &patient{limit: 50 * time.Millisecond}
	s := server.New(server.Options{Engine: w.Engine, Maintenance: slow})
	s.Add(servertest.UploadsOf(s, slow.wait))
	defer s.Close()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", s)
	mux.HandleFunc("/hasty", func(w http.ResponseWriter, r *http.Request) {
		_ = slow.wait(r.Context())
		w.WriteHeader(http.StatusNoContent)
	})
	h := listen.HTTP(mux, servertest.Discard)
	h.ReadTimeout, h.WriteTimeout = 20*time.Millisecond, 20*time.Millisecond
	go func() { _ = h.Serve(l) }()
	defer h.Close()
	c, err := client.New("http://"+l.Addr().String(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Verify(t.Context(), client.Verify{}); err != nil {
		t.Errorf("verify: %v", err)
	}
	if answer, err := http.Post("http://"+l.Addr().String()+"/upload", "text/plain",
		strings.NewReader("payload")); err != nil {
		t.Errorf("upload: %v", err)
	} else if _ = answer.Body.Close(); answer.StatusCode != http.StatusNoContent {
		t.Errorf("upload: %s", answer.Status)
	}
	jobs, err := c.Claim(t.Context(), client.Claim{Worker: "w", From: posted, N: 1, Wait: 0.05})
	if err != nil || len(jobs) != 0 {
		t.Errorf("claim: %v, %v", jobs, err)
	}
	if answer, err := http.Get("http://" + l.Addr().String() + "/hasty"); err == nil {
		_ = answer.Body.Close()
		t.Errorf("the control got an answer: %s", answer.Status)
	}
}

// patient takes longer than limit, unless its context ends first.
type patient struct {
	servertest.Maintenance
	limit time.Duration
}

func (p *patient) wait(ctx context.Context) error {
	done := time.NewTimer(p.limit)
	defer done.Stop()
	select {
	case <-done.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *patient) Verify(ctx context.Context, _ job.ID) (client.Checkup, error) {
	return client.Checkup{Faults: []string{}}, p.wait(ctx)
}
