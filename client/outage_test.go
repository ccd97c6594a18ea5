package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// restart is a proxy before a server that is away for five minutes from the first request on that a step cut.
type restart struct {
	steps []step // of the server
	cut   time.Time
	away  time.Duration
	seen  []*http.Request // by the server
}

// RoundTrip is part of http.RoundTripper.
func (l *restart) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return nil, err
		}
		if err := r.Body.Close(); err != nil {
			return nil, err
		}
	}
	if !l.cut.IsZero() && time.Since(l.cut) < l.away {
		return l.answer(r, page(502))
	}
	l.seen = append(l.seen, r)
	next := l.steps[0]
	if l.cut.IsZero() && len(l.steps) > 1 {
		l.cut = time.Now()
	}
	if len(l.steps) > 1 {
		l.steps = l.steps[1:]
	}
	return l.answer(r, next)
}

func (l *restart) answer(r *http.Request, s step) (*http.Response, error) {
	answer, err := s(r)
	if answer != nil {
		answer.Request = r
	}
	return answer, err
}

const ended = "event: job\ndata: {\"ended\":true}\n\n"

// TestOutlastsARestart: followers and uploads survive a restart of five minutes behind a proxy, report it once, and get
// each event and byte once. With less patience, which is the control, they fail.
func TestOutlastsARestart(t *testing.T) {
	output := func(at int, text string) string {
		return fmt.Sprintf("event: output\ndata: {\"stream\":\"stdout\",\"offset\":%d,\"text\":%q}\n\n", at, text)
	}
	first := says(200, "", "", "Upload-Offset", "2")
	for name, c := range map[string]struct {
		steps []step
		call  func(context.Context, *client.Client) (string, error)
		want  string
	}{
		"watch": {
			[]step{cutBody(stream, history(1)+history(2)), says(200, stream, history(2)+history(3)+ended)}, watched,
			"[1 2 3]",
		},
		"log": {
			[]step{cutBody(stream, output(0, "abc")), says(200, stream, output(3, "def")+"event: end\ndata: {}\n\n")},
			func(ctx context.Context, c *client.Client) (text string, err error) {
				err = c.FollowCompute(ctx, "cmp_1", client.Stdout, &client.ComputePlace{},
					func(o *client.ComputeOutput) error {
						text += o.Text
						return nil
					})
				return text, err
			}, "abcdef",
		},
		"calls of a follower": {
			[]step{good, good},
			func(ctx context.Context, c *client.Client) (string, error) {
				if _, err := c.Job(ctx, "let_1"); err != nil {
					return "", err
				}
				j, err := c.Job(client.Persistent(ctx), "let_1")
				return string(j.ID), err
			}, "let_1",
		},
		"submission": {
			[]step{cut, good},
			func(ctx context.Context, c *client.Client) (string, error) {
				j, err := c.Submit(ctx, client.Submission{}, strings.NewReader("bytes"))
				return string(j.ID), err
			}, "let_1",
		},
		"upload": {
			[]step{says(201, "", "", "Location", "/api/v1/compute/uploads/up_1"), first,
				says(204, "", "", "Upload-Offset", "5")},
			func(ctx context.Context, c *client.Client) (string, error) {
				source := client.ComputeSource{Name: "x", Size: 5, Content: bytes.NewReader([]byte("bytes"))}
				return c.UploadCompute(ctx, &source, nil)
			}, "up_1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, outage := range []time.Duration{0, 4 * time.Minute} {
				synctest.Test(t, func(t *testing.T) {
					said, began := 0, time.Now()
					l := &restart{steps: c.steps, away: 5 * time.Minute}
					api, err := client.New("http://stagepost.example", client.Options{
						HTTP: &http.Client{Transport: l}, Outage: outage, Retrying: func(error) { said++ },
					})
					if err != nil {
						t.Fatal(err)
					}
					got, err := c.call(t.Context(), api)
					took := time.Since(began)
					if outage == 0 && (err != nil || got != c.want || took < 5*time.Minute) || said != 1 {
						t.Errorf("got %q, %v after %s, want %q; reported %d times", got, err, took, c.want, said)
					}
					if outage != 0 && (job.KindOf(err) != job.Unavailable || took > outage) {
						t.Errorf("control: got %q, %v after %s", got, err, took)
					}
				})
			}
		})
	}
}

// watched follows a job and gives the numbers of the entries that came.
func watched(ctx context.Context, c *client.Client) (string, error) {
	var seen []int64
	err := c.Watch(ctx, "let_1", 0, func(u client.Update) error {
		if u.Event != nil {
			seen = append(seen, u.Event.Seq)
		}
		return nil
	})
	return fmt.Sprint(seen), err
}

// TestPatienceBeginsAnew: each success gives the whole time again, and the next outage is reported again.
func TestPatienceBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := 0
		var steps []step
		for i := range 5 {
			steps = append(steps, cutBody(stream, history(i+1)))
			for range 10 {
				steps = append(steps, page(503, "Retry-After", "5"))
			}
		}
		api, _ := over(t, client.Options{Outage: 2 * time.Minute, Retrying: func(error) { said++ }},
			append(steps, says(200, stream, ended))...)
		if got, err := watched(t.Context(), api); err != nil || got != "[1 2 3 4 5]" || said != 5 {
			t.Errorf("got %s, %v; reported %d times", got, err, said)
		}
	})
}

// TestSendingIsNoWaiting: the time for which a payload was sent before the connection broke does not use up the
// patience.
func TestSendingIsNoWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api, l := over(t, client.Options{Outage: time.Minute}, cut, good)
		if _, err := api.Submit(t.Context(), client.Submission{}, slow{strings.NewReader("x")}); err != nil ||
			len(l.sent) != 2 {
			t.Errorf("got %v after %d requests", err, len(l.sent))
		}
	})
}

// slow is a payload that takes an hour for each byte.
type slow struct{ *strings.Reader }

func (s slow) Read(b []byte) (int, error) {
	if s.Len() > 0 {
		time.Sleep(time.Hour)
	}
	return s.Reader.Read(b[:1])
}

func (s slow) WriteTo(io.Writer) (int64, error) { return 0, errors.New("it is read") }

// TestSilentStreamsAreBroken: a stream on which nothing comes for a minute is connected again; comments keep it open.
func TestSilentStreamsAreBroken(t *testing.T) {
	hangs := func(comments int) step {
		return func(r *http.Request) (*http.Response, error) {
			from, to := io.Pipe()
			go func() {
				for range comments {
					time.Sleep(15 * time.Second)
					_, _ = to.Write([]byte(": still here\n\n"))
				}
				if comments > 0 {
					_, _ = to.Write([]byte(ended))
				}
				<-r.Context().Done()
				_ = to.CloseWithError(syscall.ECONNABORTED)
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {stream}}, Body: from}, nil
		}
	}
	for comments, requests := range map[int]int{0: 2, 40: 1} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			api, l := over(t, client.Options{}, hangs(comments), says(200, stream, ended))
			_, err := watched(ctx, api)
			lasts := max(time.Minute, time.Duration(comments)*15*time.Second)
			if took := time.Since(began); err != nil || len(l.sent) != requests || took < lasts ||
				took > lasts+time.Second {
				t.Errorf("%d comments: got %v after %d requests and %s, want %d and %s", comments, err, len(l.sent),
					took, requests, lasts)
			}
		})
	}
}
