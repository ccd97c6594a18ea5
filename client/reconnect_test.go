package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	orders "github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// step answers one request of a line.
type step func(*http.Request) (*http.Response, error)

// line is a connection to a server: each request takes the next step, and the last step stays.
type line struct {
	steps  []step
	at     []time.Time
	bodies []string
	sent   []*http.Request
}

// RoundTrip is part of http.RoundTripper.
func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
		body = string(text)
	}
	l.at, l.bodies, l.sent = append(l.at, time.Now()), append(l.bodies, body), append(l.sent, r)
	next := l.steps[0]
	if len(l.steps) > 1 {
		l.steps = l.steps[1:]
	}
	answer, err := next(r)
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

// gaps are the pauses between the requests.
func (l *line) gaps() (list []time.Duration) {
	for i := 1; i < len(l.at); i++ {
		list = append(list, l.at[i].Sub(l.at[i-1]))
	}
	return list
}

func says(status int, media, body string, headers ...string) step {
	return func(*http.Request) (*http.Response, error) {
		h := http.Header{"Content-Type": {media}}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{
			StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Header: h,
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// page is the answer of a proxy.
func page(status int, headers ...string) step {
	return says(status, "text/html", "<h1>proxy</h1>", headers...)
}

// refuses is the answer of the server itself.
func refuses(status int, kind job.ErrorKind, headers ...string) step {
	return says(status, "application/problem+json", fmt.Sprintf(`{"kind":%q,"detail":"no"}`, kind), headers...)
}

func closedPort(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

func cut(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET }

// cutBody answers with a body that breaks off.
func cutBody(media, body string) step {
	return func(*http.Request) (*http.Response, error) {
		r := io.MultiReader(strings.NewReader(body), brokenReader{})
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(r)}, nil
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, syscall.ECONNRESET }

var good = says(200, "application/json", `{"id":"let_1"}`)

func over(t *testing.T, o client.Options, steps ...step) (*client.Client, *line) {
	t.Helper()
	l := &line{steps: steps}
	o.HTTP = &http.Client{Transport: l}
	c, err := client.New("http://stagepost.example", o)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

// TestReadsOutlastRestarts: a read is repeated while a proxy cannot reach the server and after broken connections.
func TestReadsOutlastRestarts(t *testing.T) {
	for name, first := range map[string]step{
		"502": page(502), "503 of a proxy": page(503), "504": page(504), "cut": cut,
		"cut answer":        cutBody("application/json", `{"id":`),
		"503 with a pause":  refuses(503, job.Unavailable, "Retry-After", "1"),
		"503 of the server": refuses(503, job.Unavailable), "429": refuses(429, job.Refused),
		"429 of a proxy":     page(429),
		"a port that closed": closedPort,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, l := over(t, client.Options{}, good, first, first, good)
				for range 2 {
					if j, err := c.Job(t.Context(), "let_1"); err != nil || j.ID != "let_1" {
						t.Fatalf("got %q, %v", j.ID, err)
					}
				}
				if len(l.sent) != 4 {
					t.Errorf("%d requests, want 4", len(l.sent))
				}
			})
		})
	}
}

// TestFinalAnswers is the control: these are answered once, however long the client could wait.
func TestFinalAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answer step
		want   job.ErrorKind
	}{
		"400": {refuses(400, job.Invalid), job.Invalid}, "404": {refuses(404, job.NotFound), job.NotFound},
		"409": {refuses(409, job.Conflict), job.Conflict},
		"507": {refuses(507, job.Unavailable, "Retry-After", "60"), job.Unavailable},
		"500": {refuses(500, job.Internal), job.Internal}, "404 of a proxy": {page(404), job.Internal},
		"413 of a proxy": {page(413), job.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, l := over(t, client.Options{}, good, c.answer)
				if _, err := api.Job(t.Context(), "let_1"); err != nil {
					t.Fatal(err)
				}
				if _, err := api.Job(t.Context(), "let_1"); job.KindOf(err) != c.want || len(l.sent) != 2 {
					t.Errorf("got %v after %d requests, want %s after 2", err, len(l.sent), c.want)
				}
				err := api.Watch(t.Context(), "let_1", 0, func(client.Update) error { return nil })
				if job.KindOf(err) != c.want || len(l.sent) != 3 {
					t.Errorf("watch: got %v after %d requests, want %s after 3", err, len(l.sent), c.want)
				}
				_, err = api.Submit(t.Context(), client.Submission{}, strings.NewReader("bytes"))
				if job.KindOf(err) != c.want || len(l.sent) != 4 {
					t.Errorf("submit: got %v after %d requests, want %s after 4", err, len(l.sent), c.want)
				}
			})
		})
	}
}

// TestLongMessages: a message of a stream that is too long, in one line or in many, ends the stream: it would come
// again with each connection. The control is a long one that is accepted.
func TestLongMessages(t *testing.T) {
	mebibyte := "data: " + strings.Repeat("x", 1<<20) + "\n"
	for name, c := range map[string]struct {
		message string
		want    job.ErrorKind
	}{
		"control":    {strings.Repeat(mebibyte, 15), ""},
		"many lines": {strings.Repeat(mebibyte, 17), job.Internal},
		"one line":   {"data: " + strings.Repeat("x", 17<<20) + "\n", job.Internal},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, l := over(t, client.Options{}, says(200, "text/event-stream", "event: unknown\n"+c.message+
					"\nevent: job\ndata: {\"id\":\"let_1\",\ndata: \"ended\":true}\n\n"), refuses(400, job.Invalid))
				ended := false
				err := api.Watch(t.Context(), "let_1", 0, func(u client.Update) error {
					ended = u.Job != nil && u.Job.Ended
					return nil
				})
				if job.KindOf(err) != c.want || ended != (c.want == "") || len(l.sent) != 1 {
					t.Errorf("got %v after %d requests, ended: %t; want %q", err, len(l.sent), ended, c.want)
				}
			})
		})
	}
}

// TestOnlyRepeatableCalls: a POST without a key that may have been done is not sent again; one that never left is.
func TestOnlyRepeatableCalls(t *testing.T) {
	for name, c := range map[string]struct {
		first step
		key   string
		want  int
	}{
		"no key, 502": {page(502), "", 1}, "no key, cut": {cut, "", 1}, "no key, closed port": {closedPort, "", 2},
		"key, 502": {page(502), "k", 2}, "key, cut": {cut, "k", 2},
		"no key, 429":            {refuses(429, job.Unavailable), "", 2},
		"no key, 429 of a proxy": {page(429), "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api, l := over(t, client.Options{}, good, c.first, good)
				if _, err := api.Job(t.Context(), "let_1"); err != nil {
					t.Fatal(err)
				}
				_, err := api.RequestAccess(t.Context(), client.AccessRequest{Object: "ark:/1/x", Key: c.key})
				if got := len(l.sent) - 1; got != c.want || (err == nil) != (c.want == 2) {
					t.Errorf("%d requests, %v; want %d", got, err, c.want)
				}
				l.steps, l.sent = []step{c.first, good}, nil
				_, err = api.Create(t.Context(), orders.Order{Kind: "letter", Key: c.key})
				if got := len(l.sent); got != c.want || (err == nil) != (c.want == 2) {
					t.Errorf("create: %d requests, %v; want %d", got, err, c.want)
				}
				if c.want == 2 && len(l.bodies) == 3 && (l.bodies[1] == "" || l.bodies[1] != l.bodies[2]) {
					t.Errorf("bodies %q", l.bodies[1:])
				}
			})
		})
	}
}

// TestPausesBetweenAttempts: they double from 100 ms, chance shortens them by up to half, Retry-After lengthens them,
// and they end within Patience.
func TestPausesBetweenAttempts(t *testing.T) {
	ms := time.Millisecond
	seen := map[time.Duration]bool{}
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			api, l := over(t, client.Options{}, page(502), page(502), page(503, "Retry-After", "7"), page(502), good)
			if _, err := api.Job(t.Context(), "let_1"); err != nil {
				t.Fatal(err)
			}
			for i, most := range []time.Duration{100 * ms, 200 * ms, 7400 * ms, 800 * ms} {
				least := most / 2
				if i == 2 {
					least = 7200 * ms
				}
				if got := l.gaps()[i]; got < least || got > most {
					t.Errorf("pause %d is %s, want %s to %s", i, got, least, most)
				}
			}
			seen[l.gaps()[3]] = true
		})
	}
	if len(seen) < 10 {
		t.Errorf("20 clients return after the same times: %v", seen)
	}
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(4 * time.Second).UTC().Format(http.TimeFormat)
		api, l := over(t, client.Options{}, page(503, "Retry-After", at), good)
		if _, err := api.Job(t.Context(), "let_1"); err != nil {
			t.Fatal(err)
		}
		if got := l.gaps(); len(got) != 1 || got[0] < 4*time.Second || got[0] > 4100*ms {
			t.Errorf("pauses %v, want 4s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		api, l := over(t, client.Options{Patience: 10 * time.Second}, page(502))
		_, err := api.Job(t.Context(), "let_1")
		if job.KindOf(err) != job.Unavailable ||
			!strings.Contains(err.Error(), "stagepost.example answered 502 Bad Gateway") {
			t.Errorf("got %v", err)
		}
		if d := time.Since(began); d > 10*time.Second || d < 5*time.Second || len(l.sent) < 5 {
			t.Errorf("%d requests within %s", len(l.sent), d)
		}
	})
	synctest.Test(t, func(t *testing.T) { // more than the patience: at once
		began := time.Now()
		api, l := over(t, client.Options{}, page(503, "Retry-After", "3600"))
		if _, err := api.Job(t.Context(), "let_1"); err == nil || len(l.sent) != 1 || time.Since(began) != 0 {
			t.Errorf("got %v after %d requests and %s", err, len(l.sent), time.Since(began))
		}
	})
	synctest.Test(t, func(t *testing.T) { // a server that was never reached: a mistyped address
		began := time.Now()
		api, l := over(t, client.Options{}, closedPort)
		if _, err := api.Job(t.Context(), "let_1"); err == nil || len(l.sent) != 1 || time.Since(began) != 0 {
			t.Errorf("got %v after %d requests and %s", err, len(l.sent), time.Since(began))
		}
	})
}

// TestEndsWhileItWaits: the end of the context is the error, with its cause, and not the answer before it.
func TestEndsWhileItWaits(t *testing.T) {
	late := errors.New("late")
	for name, call := range map[string]func(context.Context, *client.Client) error{
		"read": func(ctx context.Context, c *client.Client) error {
			_, err := c.Job(ctx, "let_1")
			return err
		},
		"watch": func(ctx context.Context, c *client.Client) error {
			return c.Watch(ctx, "let_1", 0, func(client.Update) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, late)
				defer cancel()
				api, _ := over(t, client.Options{}, page(502))
				if err := call(ctx, api); !errors.Is(err, late) || job.KindOf(err) != job.Unavailable {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

const stream = "text/event-stream"

func history(seq int) string { return fmt.Sprintf("event: history\ndata: {\"seq\":%d}\n\n", seq) }

// TestWatchOutlastsRestarts: a watch goes on behind the last entry that came, however the connection went.
func TestWatchOutlastsRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := []step{page(502), page(503), page(504), closedPort, cut,
			refuses(503, job.Unavailable, "Retry-After", "20")}
		steps := []step{cutBody(stream, history(1)+history(2))}
		for range 6 { // longer than all pauses of one call
			steps = append(steps, down...)
		}
		steps = append(steps, says(200, stream, history(3)), // a stream that just ends
			says(200, stream, history(4)+"event: job\ndata: {\"ended\":true}\n\n"))
		api, l := over(t, client.Options{}, steps...)
		var seen []int64
		err := api.Watch(t.Context(), "let_1", 0, func(u client.Update) error {
			if u.Event != nil {
				seen = append(seen, u.Event.Seq)
			}
			return nil
		})
		if err != nil || fmt.Sprint(seen) != "[1 2 3 4]" {
			t.Errorf("got %v, %v", seen, err)
		}
		if at := l.sent[1].Header.Get("Last-Event-ID"); at != "2" {
			t.Errorf("it goes on behind entry %q, want 2", at)
		}
	})
	synctest.Test(t, func(t *testing.T) { // within Outage
		began := time.Now()
		api, _ := over(t, client.Options{Outage: time.Minute}, cutBody(stream, history(1)), closedPort)
		err := api.Watch(t.Context(), "let_1", 0, func(client.Update) error { return nil })
		if d := time.Since(began); job.KindOf(err) != job.Unavailable || d < 50*time.Second || d > time.Minute {
			t.Errorf("got %v after %s", err, d)
		}
		if err == nil || !strings.Contains(err.Error(), "no server answers at http://stagepost.example") {
			t.Errorf("got %v", err)
		}
	})
	synctest.Test(t, func(t *testing.T) { // the caller's own error ends it
		api, l := over(t, client.Options{}, says(200, stream, history(1)))
		enough := errors.New("enough")
		if err := api.Watch(t.Context(), "let_1", 0, func(client.Update) error { return enough }); !errors.Is(err,
			enough) || len(l.sent) != 1 {
			t.Errorf("got %v after %d requests", err, len(l.sent))
		}
	})
}

// TestLogsOutlastRestarts: each byte comes once.
func TestLogsOutlastRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		output := func(at int, text string) string {
			return fmt.Sprintf("event: output\ndata: {\"stream\":\"stdout\",\"offset\":%d,\"text\":%q}\n\n", at, text)
		}
		api, l := over(t, client.Options{}, cutBody(stream, output(0, "abc")), page(502), closedPort,
			page(503, "Retry-After", "30"),
			page(504), cut, cutBody(stream, output(3, "de")), page(502), says(200, stream,
				output(5, "f")+"event: end\ndata: {}\n\n"))
		var at client.ComputePlace
		text := ""
		err := api.FollowCompute(t.Context(), "cmp_1", client.Stdout, &at, func(o *client.ComputeOutput) error {
			text += o.Text
			return nil
		})
		if err != nil || text != "abcdef" || at.Stdout != 6 || l.sent[1].Header.Get("Last-Event-ID") != "3-0" {
			t.Errorf("got %q to %s, %v", text, at, err)
		}
	})
}

// TestUploadsOutlastRestarts: a payload is handed in again from its beginning under one key; a pipe, which cannot be
// read again, is not.
func TestUploadsOutlastRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, l := over(t, client.Options{}, page(502), cut, page(503), good)
		payload := strings.NewReader("..bytes")
		if _, err := payload.Seek(2, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		if _, err := api.Submit(t.Context(), client.Submission{}, payload); err != nil || len(l.sent) != 4 {
			t.Fatalf("got %v after %d requests", err, len(l.sent))
		}
		key := l.sent[0].Header.Get("Idempotency-Key")
		for i, body := range l.bodies {
			if !strings.Contains(body, "\r\n\r\nbytes\r\n") || key == "" ||
				l.sent[i].Header.Get("Idempotency-Key") != key {
				t.Errorf("request %d has key %q and body %q", i, l.sent[i].Header.Get("Idempotency-Key"), body)
			}
		}
	})
	synctest.Test(t, func(t *testing.T) {
		api, l := over(t, client.Options{}, page(502), good)
		_, err := api.Submit(t.Context(), client.Submission{}, io.MultiReader(strings.NewReader("bytes")))
		if job.KindOf(err) != job.Unavailable || len(l.sent) != 1 {
			t.Errorf("a pipe: got %v after %d requests", err, len(l.sent))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		at := func(n int) step {
			return says(200, "", "", "Upload-Offset", fmt.Sprint(n))
		}
		steps := []step{page(502), says(201, "", "", "Location", "/api/v1/compute/uploads/up_1"), cut}
		for range 12 { // more than eight breaks in a row
			steps = append(steps, page(502))
		}
		api, l := over(t, client.Options{}, append(steps, at(3), says(204, "", "", "Upload-Offset", "5"))...)
		source := client.ComputeSource{Name: "x", Size: 5, Content: bytes.NewReader([]byte("bytes"))}
		id, err := api.UploadCompute(t.Context(), &source, nil)
		if err != nil || id != "up_1" || l.bodies[len(l.bodies)-1] != "es" {
			t.Errorf("got %q, %v; bodies %q", id, err, l.bodies)
		}
	})
}
