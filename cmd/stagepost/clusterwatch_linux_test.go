package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// listener reads the events of a job at one server.
type listener struct {
	t      *testing.T
	lines  *bufio.Scanner
	answer *http.Response
	seq    int64 // of the last entry
}

// listenAt connects as a browser does: after the entry seq, if that is not 0.
func listenAt(ctx context.Context, t *testing.T, m *member, id job.ID, seq int64) *listener {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/api/v1/jobs/"+string(id)+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	if seq > 0 {
		r.Header.Set("Last-Event-ID", fmt.Sprint(seq))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatal(answer.Status)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return &listener{t: t, lines: lines, answer: answer, seq: seq}
}

// until reads the history up to an entry. Each entry must follow the one before. It fails if a sign of life comes
// first: then the server was not notified of the change, but read the record again after a time.
func (l *listener) until(seq int64) {
	l.t.Helper()
	for l.seq < seq {
		if !l.lines.Scan() {
			l.t.Fatalf("the stream ended after entry %d: %v", l.seq, l.lines.Err())
		}
		text := l.lines.Text()
		if strings.HasPrefix(text, ":") {
			l.t.Errorf("nothing came after entry %d for a time: %s", l.seq, text)
		}
		id, ok := strings.CutPrefix(text, "id: ")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(id, "-")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n != l.seq+1 {
			l.t.Fatalf("after entry %d came %s: %v", l.seq, number, err)
		}
		l.seq = n
	}
}

// TestClusterWatch has listeners at one server and changes made at another one: each entry of the history arrives at
// once, in order. A listener whose server has gone continues at the other one with Last-Event-ID, without a gap.
func TestClusterWatch(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	api, err := client.New(c.servers[1].url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	hold := client.Hold{Everything: true, Who: "ann", Why: "nothing moves by itself"}
	if _, err := api.Hold(ctx, hold); err != nil {
		t.Fatal(err)
	}
	batch, err := api.Submit(ctx, client.Submission{Type: "file", Filename: "a.txt", Submitter: "ann",
		LocalIDs: []string{"a"}}, strings.NewReader("text"))
	if err != nil {
		t.Fatal(err)
	}
	change := func(priority int) (seq int64) {
		t.Helper()
		j, err := api.SetPriority(ctx, batch.ID, client.Priority{Priority: &priority, Note: "test"})
		if err != nil {
			t.Fatal(err)
		}
		return j.Seq
	}
	l := listenAt(ctx, t, c.servers[0], batch.ID, 0)
	l.until(1)
	for priority := range 5 {
		l.until(change(10 + priority))
	}
	c.servers[0].kill(t)
	missed := change(20)
	resumed := listenAt(ctx, t, c.servers[1], batch.ID, l.seq)
	resumed.until(missed)
	resumed.until(change(21))
	if resumed.seq < 8 {
		t.Errorf("the history has %d entries", resumed.seq)
	}
	c.begin(c.servers[0])
}
