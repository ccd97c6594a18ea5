package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

// TestWatchSeesEverything follows a job from its creation to its end.
func TestWatchSeesEverything(t *testing.T) {
	reached, goOn := make(chan struct{}), make(chan struct{})
	w := servertest.Open(t, nil, map[lc.State]engine.Step{"Sorting": func(ctx context.Context, r *engine.Run) error {
		r.Progress(3, 10, "letters")
		close(reached)
		select {
		case <-goOn:
		case <-ctx.Done():
		}
		return ctx.Err()
	}})
	w.Run()
	id := w.Post(engine.Order{}).ID
	<-reached
	var seen []string
	progress, released := false, false
	err := w.Client.Watch(t.Context(), id, 0, func(u client.Update) error {
		if u.Event != nil {
			seen = append(seen, string(u.Event.Event))
		}
		if u.Job != nil && u.Job.Progress != nil && u.Job.Progress.Done == 3 {
			progress = true
		}
		if progress && !released {
			released = true
			close(goOn)
		}
		return nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "create begin next finish" || !progress {
		t.Errorf("got %q, progress %v, %v", got, progress, err)
	}
	seen = nil
	err = w.Client.Watch(t.Context(), id, 2, func(u client.Update) error {
		if u.Event != nil {
			seen = append(seen, string(u.Event.Event))
		}
		return nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "next finish" {
		t.Errorf("after entry 2: got %q, %v", got, err)
	}
}

func TestWatchStops(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{}).ID
	enough := errors.New("enough")
	if err := w.Client.Watch(t.Context(), id, 0, func(client.Update) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
	if err := w.Client.Watch(t.Context(), "let_nobody", 0,
		func(client.Update) error { return nil }); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := w.Client.Watch(ctx, id, 0, func(u client.Update) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestStreamReportsTheLog: a stream with an offset reports when the log is longer than that, once for each length. One
// without is the control.
func TestStreamReportsTheLog(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{}).ID
	epoch := claimJobs(w, "coach", 1)[0].Epoch
	write := func(n int64) {
		t.Helper()
		if _, err := w.Client.Update(t.Context(), client.Reports{Worker: "coach", Reports: []client.Report{
			{Job: id, Epoch: epoch, Log: []api.LogEntry{{N: n, Text: "a line"}}}}}); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	follow := func(query string) *bufio.Reader {
		t.Helper()
		answer, err := http.DefaultTransport.RoundTrip(w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+
			"/events?after=9"+query, ""))
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", answer, err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return bufio.NewReader(answer.Body)
	}
	size := func(r *bufio.Reader) (size int64) { // of the next message about the log
		t.Helper()
		for line := ""; line != "event: log\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := fmt.Fscanf(r, "data: {\"size\":%d}\n", &size); err != nil {
			t.Fatal(err)
		}
		return size
	}
	with, plain := follow("&offset=0"), follow("")
	first := size(with)
	write(2)
	if second := size(with); first <= 0 || second <= first {
		t.Errorf("got %d bytes after %d", second, first)
	}
	w.Server.Close()
	if text, err := io.ReadAll(plain); err != nil || strings.Contains(string(text), "event: log") ||
		!strings.Contains(string(text), "event: job") {
		t.Errorf("without an offset: got %q, %v", text, err)
	}
	if text, err := io.ReadAll(with); err != nil || strings.Contains(string(text), "event: log") {
		t.Errorf("a length comes again: %q, %v", text, err)
	}
}

// TestStreamAfterTheFuture: a reader with the number of an entry that does not exist, as after a restore, gets the next
// entries nevertheless.
func TestStreamAfterTheFuture(t *testing.T) {
	for name, ask := range map[string]func(*http.Request){
		"Last-Event-ID": func(r *http.Request) { r.Header.Set("Last-Event-ID", "99") },
		"after":         func(r *http.Request) { r.URL.RawQuery = "after=99" },
	} {
		w := servertest.Open(t, nil, nil)
		id := w.Post(engine.Order{}).ID
		r := w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+"/events", "")
		ask(r)
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("got %v, %v", answer, err)
		}
		if _, err := w.Client.Do(t.Context(), id, "hold", client.Act{}); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(answer.Body)
		for held := false; !held; { // the control: the record as held, which comes behind the entries
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if strings.HasPrefix(line, "id: 2-") {
				break
			}
			if held = strings.Contains(line, `"held":true`) || strings.Contains(line, `"state":"Held"`); held {
				t.Errorf("%s: the entry of the hold was not sent", name)
			}
		}
		_ = answer.Body.Close()
	}
}

// TestStreamAfterRestore: a reader with the id of an entry that the history no longer has, because a backup was
// restored, is notified and gets the history from the first entry on. Ids of entries that it has, and numbers alone,
// are the control.
func TestStreamAfterRestore(t *testing.T) {
	w := servertest.Open(t, nil, servertest.Worked)
	w.Run()
	id := w.Post(engine.Order{}).ID
	if err := w.Client.Watch(t.Context(), id, 0, func(client.Update) error { return nil }); err != nil { // to its end
		t.Fatal(err)
	}
	stream := func(last string) (names, ids string) {
		t.Helper()
		r := w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+"/events", "")
		r.Header.Set("Last-Event-ID", last)
		answer, text := w.Ask(r)
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %s", last, answer.Status)
		}
		for line := range strings.Lines(text) {
			if name, ok := strings.CutPrefix(line, "event: "); ok {
				names += strings.TrimSpace(name) + " "
			}
			if at, ok := strings.CutPrefix(line, "id: "); ok {
				ids += strings.TrimSpace(at) + " "
			}
		}
		return names, ids
	}
	_, all := stream("0")
	places := strings.Fields(all)
	if len(places) != 4 {
		t.Fatalf("got %q", all)
	}
	const anew, other = "restored history history history history job ", "-0123456789abcdef"
	for last, want := range map[string]string{
		"2" + other: anew, "4" + other: anew, "5" + other: anew, "99" + other: anew, "0" + other: anew,
		places[1]: "history history job ", places[3]: "job ", "2": "history history job ", "99": "job ",
	} {
		if got, ids := stream(last); got != want || want == anew && ids != all {
			t.Errorf("after %s: got %s(%s), want %s", last, got, ids, want)
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := servertest.Open(t, func(o *server.Options) { o.Watchers = 1 }, nil)
	path := "/api/v1/jobs/" + string(w.Post(engine.Order{}).ID) + "/events"
	first, err := http.DefaultTransport.RoundTrip(w.Request(http.MethodGet, path, ""))
	if err != nil || first.StatusCode != http.StatusOK || first.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %v, %v", first, err)
	}
	servertest.CheckHeaders(t, first)
	if line, err := bufio.NewReader(first.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "id: 1-") {
		t.Errorf("got %q, %v", line, err)
	}
	w.Problem(w.Request(http.MethodGet, path, ""), http.StatusServiceUnavailable, job.Unavailable)
	w.Server.Close()
	if _, err := io.Copy(io.Discard, first.Body); err != nil {
		t.Errorf("the stream ends with the server: %v", err)
	}
	_ = first.Body.Close()
}

// TestSlowReaderHindersNoOther opens streams that are not read. Changes continue: 600 of them take at most ten
// seconds, or, on a machine that is slow already, five times as long as without streams.
func TestSlowReaderHindersNoOther(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	j := w.Post(engine.Order{})
	changes := func() time.Duration {
		began := time.Now()
		for range 300 {
			if _, err := w.Client.Do(t.Context(), j.ID, "hold",
				client.Act{Note: strings.Repeat("x", 2000)}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Client.Do(t.Context(), j.ID, "release", client.Act{}); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(began)
	}
	alone := changes()
	address := strings.TrimPrefix(w.Web.URL, "http://")
	for range 20 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /api/v1/jobs/"+string(j.ID)+"/events HTTP/1.1\r\nHost: "+
			"localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	if took := changes(); took > max(10*time.Second, 5*alone) {
		t.Errorf("600 changes took %s, and %s without streams", took, alone)
	}
}

// restorable is a store into which another history of each job is restored while a server uses it.
type restorable struct {
	job.Store
	restored atomic.Bool
	add      int // entries that the other history has more
}

// other returns the history of a job as it is after the restore: all entries are others.
func (s *restorable) other(ctx context.Context, id job.ID) ([]job.Event, error) {
	all, err := s.Store.History(ctx, id, 0, 0)
	if err != nil {
		return nil, err
	}
	var prev job.Hash
	all = all[:1]
	for range s.add {
		all = append(all, all[0])
	}
	for i := range all {
		e := &all[i]
		e.Seq, e.Note = int64(i+1), "of the backup"
		e.Seal(prev)
		prev = e.Hash
	}
	return all, nil
}

func (s *restorable) Get(ctx context.Context, id job.ID) (job.Job, error) {
	j, err := s.Store.Get(ctx, id)
	if err != nil || !s.restored.Load() {
		return j, err
	}
	all, err := s.other(ctx, id)
	if err == nil {
		j.Seq, j.Head = int64(len(all)), all[len(all)-1].Hash
	}
	return j, err
}

func (s *restorable) History(ctx context.Context, id job.ID, seq int64, n int) ([]job.Event, error) {
	if !s.restored.Load() {
		return s.Store.History(ctx, id, seq, n)
	}
	all, err := s.other(ctx, id)
	return all[min(int(seq), len(all)):], err
}

// TestStreamDuringRestore: a stream ends when a database is restored below it, also if the restored history is as long
// as what was sent, or longer. The reader comes back and is notified.
func TestStreamDuringRestore(t *testing.T) {
	for name, add := range map[string]int{"as long": 0, "longer": 2} {
		store := &restorable{Store: mem.New(), add: add}
		e, err := engine.New(store, []engine.Work{{Life: servertest.Letter, Prefix: "let", Outside: true}},
			engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := servertest.Serve(t, server.Options{Engine: e})
		id := w.Post(engine.Order{}).ID
		answer, err := http.DefaultClient.Do(w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+"/events", ""))
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		lines := bufio.NewReader(answer.Body)
		last := ""
		for line := ""; line != "event: job\n"; {
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if at, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(at)
			}
		}
		store.restored.Store(true)
		if _, err := e.Operator().SetPriority(t.Context(), id, 0, 9, "ann", ""); err != nil { // a change
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil || strings.Contains(string(rest), "id: ") {
			t.Errorf("%s: after %s: %q, %v", name, last, rest, err)
		}
	}
}
