package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// serve answers every request with a handler; package server's tests hold the client against the real API.
func serve(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	c, err := client.New(web.URL, client.Options{Patience: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestAddresses(t *testing.T) {
	for base, ok := range map[string]bool{
		"http://127.0.0.1:7433": true, "http://localhost:7433/": true, "https://archive.example/stagepost": true,
		"": false, "127.0.0.1:7433": false, "ftp://x": false, "http://": false, "http://x?y=1": false,
		"http://user:pass@x": false, "://": false,
	} {
		if _, err := client.New(base, client.Options{}); (err == nil) != ok || (!ok && job.KindOf(err) != job.Invalid) {
			t.Errorf("%q: got %v", base, err)
		}
	}
}

func TestAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		status      int
		media, body string
		want        job.ErrorKind
	}{
		"a problem": {409, "application/problem+json",
			`{"kind":"stale","detail":"it is over","job":"let_1","op":"report"}`, job.Stale},
		"with a parameter":  {404, "application/problem+json; charset=utf-8", `{"kind":"not-found"}`, job.NotFound},
		"a proxy's page":    {502, "text/html", "<h1>Bad gateway</h1>", job.Unavailable},
		"an empty problem":  {500, "application/problem+json", `{}`, job.Internal},
		"a cut problem":     {500, "application/problem+json", `{"kind":`, job.Internal},
		"a redirect":        {302, "text/html", "", job.Internal},
		"success, not JSON": {200, "text/html", "<h1>hello</h1>", job.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			api := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.media)
				w.Header().Set("Location", "http://evil.example/")
				w.WriteHeader(c.status)
				fmt.Fprint(w, c.body)
			})
			_, err := api.Job(t.Context(), "let_1")
			if job.KindOf(err) != c.want {
				t.Errorf("got %v (%s), want %s", err, job.KindOf(err), c.want)
			}
		})
	}
}

func TestNoServer(t *testing.T) {
	c, err := client.New("http://127.0.0.1:1", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Job(t.Context(), "let_1")
	if job.KindOf(err) != job.Unavailable ||
		!strings.Contains(err.Error(), "no server answers at http://127.0.0.1:1: ") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = c.Job(ctx, "let_1"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestIDsAreEscaped makes sure that an id cannot become another path.
func TestIDsAreEscaped(t *testing.T) {
	var path string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		fmt.Fprint(w, `{}`)
	})
	if _, err := c.Do(t.Context(), "../../x?y#z", "a/b", client.Act{}); err != nil {
		t.Fatal(err)
	}
	if want := "/api/v1/jobs/..%2F..%2Fx%3Fy%23z/events/a%2Fb"; path != want {
		t.Errorf("got %s, want %s", path, want)
	}
}

// TestWatchComesBack breaks the connection after each message: the client goes on after the last entry it saw.
func TestWatchComesBack(t *testing.T) {
	var asked []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		last := r.Header.Get("Last-Event-ID")
		asked = append(asked, last)
		w.Header().Set("Content-Type", "text/event-stream")
		switch last {
		case "0":
			fmt.Fprint(w, "id: 1\r\nevent: history\r\ndata: {\"seq\":1,\r\ndata: "+
				"\"event\":\"create\",\"by\":[\"owner\"]}\r\n\r\n: a comment\n\nevent: unheard-of\ndata: x\n\n")
		case "1":
			fmt.Fprint(w, "id: 2\nevent: history\ndata: {\"seq\":2,\"event\":\"begin\"}\n\nid: 3\nevent: "+
				"history\ndata: {\"seq\":3")
		default:
			fmt.Fprint(w, "id: 3\nevent: history\ndata: {\"seq\":3,\"event\":\"finish\"}\n\nevent: "+
				"job\ndata: {\"id\":\"let_1\",\"ended\":true}\n\n")
		}
	})
	var seen []string
	err := c.Watch(t.Context(), "let_1", 0, func(u client.Update) error {
		if u.Event != nil {
			seen = append(seen, string(u.Event.Event))
		}
		return nil
	})
	if got := strings.Join(seen, " "); err != nil || got != "create begin finish" ||
		strings.Join(asked, " ") != "0 1 2" {
		t.Errorf("got %q asking from %v, %v", got, asked, err)
	}
}

func TestSubmitReportsABrokenPayload(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); err != nil {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(400)
			fmt.Fprint(w, `{"kind":"invalid","detail":"the form is cut off"}`)
			return
		}
		fmt.Fprint(w, `{"id":"bat_1"}`)
	})
	if j, err := c.Submit(t.Context(), client.Submission{}, strings.NewReader("whole")); err != nil || j.ID != "bat_1" {
		t.Errorf("the control: got %s, %v", j.ID, err)
	}
	broken := errors.New("the disk is gone")
	if _, err := c.Submit(t.Context(), client.Submission{}, reader{broken}); err == nil {
		t.Error("a payload that cannot be read was handed in")
	}
}

type reader struct{ err error }

func (r reader) Read([]byte) (int, error) { return 0, r.err }
