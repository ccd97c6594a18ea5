//go:build linux

package trials

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/internal/ziptest"
)

// TestGolden shows the results of the original's three example scripts with each pairing.
func TestGolden(t *testing.T) {
	t.Run("our server and our agent", func(t *testing.T) {
		t.Parallel()
		s := open(t, with(dial(t, employ(t, nil).url)), nil)
		golden(t, s.user, []string{".orchestrator.exit", "exit.json", "progress.txt", "run.sh", "stderr", "stdout"})
	})
	t.Run("our server and an original client", func(t *testing.T) {
		t.Parallel()
		c := wiretest.Client(t, wiretest.ClientOptions{})
		s := open(t, with(original(t, c, nil)), nil)
		golden(t, s.user, []string{".orchestrator.exit", "progress.txt", "run.sh"})
	})
	t.Run("an original server and our agent", func(t *testing.T) {
		t.Parallel()
		f := wiretest.Server(t,
			wiretest.ServerOptions{
				Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(employ(t, nil).url)}})
		golden(t, user{T: t, url: f.URL}, []string{".orchestrator.exit", "exit.json", "progress.txt", "run.sh",
			"stderr", "stdout"})
		t.Run("words", func(t *testing.T) { words(t, f) })
	})
	t.Run("the original's own pairing", func(t *testing.T) {
		// control: the self-copy is there, and nothing of what the agent reports
		t.Parallel()
		c := wiretest.Client(t, wiretest.ClientOptions{})
		f := wiretest.Server(t,
			wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(c.URL)}})
		golden(t, user{T: t, url: f.URL}, []string{".orchestrator.exit", "output.zip", "progress.txt", "run.sh"})
	})
}

// golden goes through submit, partial download, cancel and a failure. A complete ZIP must hold exactly the names.
func golden(t *testing.T, u user, names []string) {
	t.Helper()
	l := newLatch(t)
	text := script("echo 'step 1' >>progress.txt\n" + l.wait() + "echo 'step 2' >>progress.txt")
	whole, cancelled := u.upload(text), u.uploadTo("example", 2, map[string]string{"run.sh": text})
	l.arrived(2)
	u.until(whole, "Running")
	u.until(cancelled, "Running") // an original server has only then what it has to end
	if code, files := u.partial(whole); code != 200 || files["progress.txt"] != "step 1\n" || files["run.sh"] != text {
		t.Errorf("partial: %d %v", code, files)
	}
	if code, message := u.terminate(cancelled); code != 200 || message != "job terminated" {
		t.Errorf("terminate: %d %q", code, message)
	}
	u.until(cancelled, "Killed") // by the word itself: no query of an agent of ours comes so soon
	l.lift()
	u.until(whole, "Completed")
	files := u.results(whole)
	var got []string
	for name := range files {
		got = append(got, name)
	}
	if slices.Sort(got); !slices.Equal(got, names) {
		t.Errorf("got %v, want %v", got, names)
	}
	if files["progress.txt"] != "step 1\nstep 2\n" || files["run.sh"] != text {
		t.Errorf("got %q", files)
	}
	failed := u.upload(script("echo so far >made.txt; exit 3"))
	u.until(failed, "Failed")
	if code, files := u.partial(failed); code != 200 || files["made.txt"] != "so far\n" {
		t.Errorf("partial of a failed job: %d %v", code, files)
	}
	if code, _ := u.partial(9999); code != 404 {
		t.Errorf("partial of no job: %d", code)
	}
	if code, _ := u.terminate(9999); code != 404 {
		t.Errorf("terminate of no job: %d", code)
	}
}

// words compares what our agent reports to an original server against rule 2: nothing that it would dispatch again or
// never poll again.
func words(t *testing.T, f *wiretest.FakeServer) {
	t.Helper()
	for body, want := range map[string]string{"true": "Completed", "exit 1": "Failed", "kill -9 $$": "Failed"} {
		id := f.Submit(1, "example", map[string]string{"run.sh": "#!/bin/bash\n" + body + "\n"}) // no trap is needed
		f.Await(id, want)
		for _, word := range f.Words(id) {
			if !slices.Contains([]string{"Processing", "Submitted", "Prepared", "Running", want}, word) {
				t.Errorf("%s: the server received %v", body, f.Words(id))
			}
		}
	}
	invalid := f.Submit(1, "example", map[string]string{"other.txt": "no script"})
	f.Await(invalid, "Invalid")
	done := f.Submit(1, "example", map[string]string{"run.sh": "echo made >made.txt", "in.txt": "in"})
	f.Await(done, "Completed")
	text, err := os.ReadFile(f.Output(done))
	if err != nil {
		t.Fatal(err)
	}
	files := ziptest.Files(t, text)
	if has(t, files, "made.txt", "in.txt", "run.sh"); files["output.zip"] != "" {
		t.Error("the results hold themselves")
	}
}

// TestGoldenClient shows what our server does besides with an original client: it gives scripts the trap, keeps a
// user's own output.zip and mends a ZIP that is cut.
func TestGoldenClient(t *testing.T) {
	const bare = "#!/bin/bash\necho made >made.txt\n"
	t.Run("trap", func(t *testing.T) {
		t.Parallel()
		c := wiretest.Client(t, wiretest.ClientOptions{})
		s := open(t, with(original(t, c, func(o *legacy.Options) { o.Trap = true })), nil)
		id := s.upload(bare)
		s.ends(id, compute.Completed, "")
		files := s.results(id)
		if has(t, files, "made.txt"); !contains(files["run.sh"], "trap") ||
			!contains(files["run.sh"], "#!/bin/bash\n__orch") {
			t.Errorf("got %q", files["run.sh"])
		}
		without := open(t, with(original(t, c, nil)), nil) // control
		without.ends(without.upload(bare), compute.Failed, compute.CauseRejected)
	})
	t.Run("own output.zip", func(t *testing.T) {
		t.Parallel()
		c := wiretest.Client(t, wiretest.ClientOptions{})
		s := open(t, with(original(t, c, nil)), nil)
		id := s.uploadTo("example", 1, map[string]string{"run.sh": script("true"),
			"output.zip": string(ziptest.Zip(map[string]string{"mine.txt": "mine"}))})
		s.ends(id, compute.Completed, "")
		if files := s.results(id); len(files) != 1 || files["mine.txt"] != "mine" {
			t.Errorf("got %v", files)
		}
	})
	t.Run("lost payload", lostPayload)
	t.Run("silent", func(t *testing.T) { // an original client that is behind a slow line is given its time
		t.Parallel()
		c := wiretest.Client(t, wiretest.ClientOptions{})
		s := open(t, with(original(t, c, func(o *legacy.Options) { o.Calls.Pack = 2 * time.Second })), nil)
		c.Break(wiretest.Fault{Path: "/retrieve/", Hang: true, Times: 2})
		id := s.upload(script("echo made >made.txt"))
		s.ends(id, compute.Completed, "")
		has(t, s.results(id), "made.txt")
		if n := len(c.Submissions()); n != 1 {
			t.Errorf("submitted %d times", n)
		}
	})
}

// Rule 6: a 404 is the end.
func lostPayload(t *testing.T) {
	t.Parallel()
	c := wiretest.Client(t, wiretest.ClientOptions{Run: func(ctx context.Context, _ string) int {
		<-ctx.Done()
		return 1
	}})
	s := open(t, with(original(t, c, nil)), nil)
	for range 2 {
		s.await(s.upload(script("true")), compute.Running)
	}
	c.Wipe()
	s.ends(1, compute.Failed, compute.CauseLost)
	s.ends(2, compute.Failed, compute.CauseLost)
	asked := len(c.Requests())
	s.await(s.upload(script("true")), compute.Running) // it goes on with others: this one is payload 1 once more
	since := func(request string) (n int) {
		for _, r := range c.Requests()[asked:] {
			if r == request {
				n++
			}
		}
		return n
	}
	c.Await("control: one that runs is polled on", func() bool { return since("GET /retrieve/1") >= 10 })
	if n := since("GET /retrieve/2"); n != 0 {
		t.Errorf("one that is lost is polled on, %d times", n)
	}
}
