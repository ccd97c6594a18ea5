package computehttp_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// TestComputeLogs reads what was written, while it runs and after.
func TestComputeLogs(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	path := "/api/v1/compute/jobs/" + string(j.ID) + "/logs"
	p := c.runs(j.ID)
	p.write("stdout", "one\ntwo\n")
	p.write("stderr", "oh\n")
	check := func(when string) {
		t.Helper()
		for query, want := range map[string]string{"": "one\ntwo\n", "?stream=stdout&offset=4": "two\n",
			"?stream=stderr": "oh\n", "?offset=100": ""} {
			answer, text := c.get(path + query)
			if text != want || answer.Header.Get("Content-Type") != "text/plain; charset=utf-8" ||
				answer.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %s: got %q (%s), want %q", when, query, text, answer.Header.Get("Content-Type"), want)
			}
		}
		if _, text := c.get(path + "?stream=both"); len(text) != len("one\ntwo\noh\n") ||
			!strings.Contains(text, "oh\n") {
			t.Errorf("both: got %q", text)
		}
	}
	check("while it runs")
	c.finish(j.ID, compute.Ending{})
	check("after")
	if _, text := c.get(path + "?follow=true"); text != "one\ntwo\n" {
		t.Errorf("got %q", text)
	}
	for _, wrong := range []string{"?stream=x", "?offset=-1", "?stream=both&offset=1", "?follow=maybe", "?n=1"} {
		c.Problem(c.Request(http.MethodGet, path+wrong, ""), http.StatusBadRequest, job.Invalid)
	}
	r := c.Request(http.MethodGet, path, "")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("Last-Event-ID", "1-2x")
	c.Problem(r, http.StatusBadRequest, job.Invalid)
}

// TestComputeLogFollow follows a job from before its start to after its end, as text.
func TestComputeLogFollow(t *testing.T) {
	c := openCompute(t, nil)
	first := c.order(client.ComputeOrder{Service: "small"})
	blocker := c.runs(first.ID)
	j := c.order(client.ComputeOrder{Service: "small"})
	c.Problem(c.Request(http.MethodGet, "/api/v1/compute/jobs/"+string(j.ID)+"/logs", ""), http.StatusNotFound,
		job.NotFound)
	answer, err := http.DefaultTransport.RoundTrip(c.Request(http.MethodGet,
		"/api/v1/compute/jobs/"+string(j.ID)+"/logs?follow=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() // the head came although nothing is written
	blocker.end(compute.Ending{})
	p := c.runs(j.ID)
	lines := bufio.NewReader(answer.Body)
	for _, line := range []string{"one\n", "two\n", "ümläut\n"} { // each is there before the next is written
		p.write("stdout", line)
		if got, err := lines.ReadString('\n'); got != line || err != nil {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	p.end(compute.Ending{})
	if rest, err := io.ReadAll(lines); err != nil || len(rest) != 0 {
		t.Errorf("got %q, %v", rest, err)
	}
	if j := c.ended(j.ID); !j.Ended {
		t.Error("the log ended before the job")
	}
}

// cutter closes connections: those of a client whose line breaks.
type cutter struct {
	http.RoundTripper
	after int // bytes of an answer
	n     int // answers that are cut
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err == nil && c.n > 0 && strings.HasSuffix(r.URL.Path, "/logs") {
		c.n--
		answer.Body = &cutBody{answer.Body, c.after}
	}
	return answer, err
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (c *cutBody) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// TestComputeLogResumes follows both streams over a line that breaks: each byte comes once, text or not.
func TestComputeLogResumes(t *testing.T) {
	c := openCompute(t, nil)
	cut := &cutter{RoundTripper: http.DefaultTransport, after: 700, n: 4}
	lame, err := client.New(c.Web.URL, client.Options{HTTP: &http.Client{Transport: cut}})
	if err != nil {
		t.Fatal(err)
	}
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	got := map[string]string{}
	seen := make(chan string, 1000)
	done := make(chan error, 1)
	at := client.ComputePlace{}
	go func() {
		done <- lame.FollowCompute(t.Context(), j.ID, client.Both, &at, func(o *client.ComputeOutput) error {
			got[o.Stream] += string(o.Data())
			seen <- o.Stream
			return nil
		})
	}()
	want := map[string]string{}
	for i := range 20 {
		for stream, text := range map[string]string{"stdout": strings.Repeat("é", 10+i) + "\n",
			"stderr": "\xff\xfe" + strings.Repeat("x", i) + "\n"} {
			want[stream] += text
			p.write(stream, text)
			<-seen
		}
	}
	p.end(compute.Ending{})
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got["stdout"] != want["stdout"] || got["stderr"] != want["stderr"] || at.Stdout != int64(len(want["stdout"])) {
		t.Errorf("got %q, want %q", got, want)
	}
	if cut.n != 0 {
		t.Error("the control: the line did not break")
	}
}

// TestComputeLogBehindEnd: a follower from an offset behind the end of a stream is refused, one at its end is not. A
// follower of events who comes back with a position behind the end gets the stream from its first byte on: it began
// anew meanwhile, and another stream of the new attempt may have nothing.
func TestComputeLogBehindEnd(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	p.write("stdout", "four")
	path := "/api/v1/compute/jobs/" + string(j.ID) + "/logs?follow=true"
	events := c.Request(http.MethodGet, path+"&stream=stdout&offset=5", "")
	events.Header.Set("Accept", "text/event-stream")
	c.Problem(events, http.StatusRequestedRangeNotSatisfiable, job.Invalid)
	c.Problem(c.Request(http.MethodGet, path+"&offset=5", ""), http.StatusRequestedRangeNotSatisfiable, job.Invalid)
	p.end(compute.Ending{})
	answer, text := c.Ask(c.Request(http.MethodGet, path+"&offset=4", ""))
	if answer.StatusCode != http.StatusOK || text != "" {
		t.Errorf("at the end: got %s: %s", answer.Status, text)
	}
	for at, want := range map[client.ComputePlace]string{{Stdout: 5}: "0 four ", {Stdout: 4, Stderr: 1}: "",
		{}: "0 four "} {
		got := ""
		err := c.Client.FollowCompute(t.Context(), j.ID, "both", &at, func(o *client.ComputeOutput) error {
			got += fmt.Sprint(o.Offset, " ", o.Text, " ")
			return nil
		})
		if err != nil || got != want {
			t.Errorf("got %q, want %q: %v", got, want, err)
		}
	}
}

// TestComputeLogBeginsAnew: a job is sent to its agent once more after it wrote something there. A follower of events
// gets the new log from its first byte on, one of the text ends with an error.
func TestComputeLogBeginsAnew(t *testing.T) {
	c := openCompute(t, func(o *compute.Options, _ *options) { o.RetryFor = time.Millisecond })
	first, lost := make(chan *payload), make(chan struct{})
	attempts := 0
	c.puppet.lose = func(p *payload) error {
		if attempts++; attempts > 1 {
			return nil
		}
		first <- p
		<-lost
		return compute.ErrNotSent
	}
	j := c.order(client.ComputeOrder{})
	(<-first).write("stdout", "the first attempt\n")
	pieces, done := make(chan client.ComputeOutput, 10), make(chan error, 1)
	at := client.ComputePlace{}
	go func() {
		done <- c.Client.FollowCompute(t.Context(), j.ID, client.Stdout, &at, func(o *client.ComputeOutput) error {
			pieces <- *o
			return nil
		})
	}()
	text, err := http.DefaultTransport.RoundTrip(c.Request(http.MethodGet,
		"/api/v1/compute/jobs/"+string(j.ID)+"/logs?follow=1", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Body.Close()
	lines := bufio.NewReader(text.Body)
	if line, err := lines.ReadString('\n'); err != nil || line != "the first attempt\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if o := <-pieces; o.Text != "the first attempt\n" {
		t.Fatalf("got %+v", o)
	}
	c.puppet.get(j.ID).end(compute.Ending{}) // its streams end
	close(lost)
	p := c.runs(j.ID)
	p.write("stdout", "second\n")
	if o := <-pieces; o.Text != "second\n" || o.Offset != 0 {
		t.Errorf("got %+v", o)
	}
	p.end(compute.Ending{})
	if err := <-done; err != nil || at.Stdout != int64(len("second\n")) {
		t.Errorf("at %+v: %v", at, err)
	}
	if rest, err := io.ReadAll(lines); err == nil || len(rest) != 0 {
		t.Errorf("the text: got %q, %v", rest, err)
	}
}

// TestComputeLogLeft: a reader who goes leaves nothing behind, neither here nor at the agent.
func TestComputeLogLeft(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	p.write("stdout", "x")
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Client.FollowCompute(ctx, j.ID, client.Stdout, &client.ComputePlace{},
		func(*client.ComputeOutput) error { cancel(); return nil })
	if err == nil {
		t.Error("it ended without an error")
	}
	c.finish(j.ID, compute.Ending{})
}

// TestComputeLogNone: a job that was cancelled before it began has no log, and following it ends.
func TestComputeLogNone(t *testing.T) {
	c := openCompute(t, nil)
	first := c.order(client.ComputeOrder{Service: "small"})
	c.runs(first.ID)
	j := c.order(client.ComputeOrder{Service: "small"})
	done := make(chan error, 1)
	go func() {
		done <- c.Client.FollowCompute(t.Context(), j.ID, client.Both, &client.ComputePlace{},
			func(*client.ComputeOutput) error { return nil })
	}()
	if _, err := c.Client.CancelCompute(t.Context(), j.ID, client.Act{}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	c.Problem(c.Request(http.MethodGet, "/api/v1/compute/jobs/"+string(j.ID)+"/logs", ""), http.StatusNotFound,
		job.NotFound)
	other, err := c.Submit(t.Context(), engine.Order{Kind: "test.letter"})
	if err != nil {
		t.Fatal(err)
	}
	c.Problem(c.Request(http.MethodGet, "/api/v1/compute/jobs/"+string(other.ID)+"/logs?follow=true", ""),
		http.StatusNotFound, job.NotFound)
}

// TestComputeLogCharacters: a character that is written in two pieces comes as one, and as text.
func TestComputeLogCharacters(t *testing.T) {
	c := openCompute(t, nil)
	j := c.order(client.ComputeOrder{})
	p := c.runs(j.ID)
	pieces := make(chan client.ComputeOutput, 10)
	done := make(chan error, 1)
	go func() {
		done <- c.Client.FollowCompute(t.Context(), j.ID, client.Stdout, &client.ComputePlace{},
			func(o *client.ComputeOutput) error {
				pieces <- *o
				return nil
			})
	}()
	p.write("stdout", "a\xe2\x82")
	if first := <-pieces; first.Text != "a" {
		t.Errorf("got %+v", first)
	}
	p.write("stdout", "\xac")
	if second := <-pieces; second.Text != "€" || second.Offset != 1 {
		t.Errorf("got %+v", second)
	}
	p.write("stdout", "\xff") // is no beginning of anything
	if third := <-pieces; string(third.Data()) != "\xff" || third.Base64 == nil {
		t.Errorf("got %+v", third)
	}
	p.write("stdout", "\xe2") // what never goes on comes at the end
	p.end(compute.Ending{})
	if last := <-pieces; string(last.Data()) != "\xe2" {
		t.Errorf("got %+v", last)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
