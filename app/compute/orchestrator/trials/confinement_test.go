//go:build linux

package trials

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/orchestrator"
	"github.com/stagepost/stagepost/app/compute/orchestrator/legacy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/policy"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
)

// Words in a script are no crime, unless the service configuration requires the original's list; then the reason
// reaches the user.
func blocklist(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their := theirs(t, example(c))
	for _, body := range []string{"# see /proc/ for more", "echo curl is a word", "echo run docker later"} {
		if s := their.until(their.upload(script(body)), "Invalid", "Completed"); s.Status != "Invalid" ||
			s.Message != "" {
			t.Errorf("control: %q is %+v", body, s)
		}
	}
	x := dial(t, employ(t, nil).url)
	s, strict := open(t, with(x), nil), open(t, with(dial(t, employ(t, nil).url)),
		func(s *setting) { s.compute.Check = orchestrator.Check(policy.Legacy) })
	for _, body := range []string{"# see /proc/ for more", "echo curl is a word", "chmod 755 run.sh",
		"# transform input/output", "service= true", "echo mount stress"} {
		s.ends(s.upload(body), compute.Completed, "")
	}
	id := strict.upload(script("curl http://example.org"))
	strict.ends(id, compute.Invalid, compute.CauseRejected)
	if now := strict.status(id); now.Status != "Invalid" || !contains(now.Message, "curl") {
		t.Errorf("got %+v", now)
	}
}

// zombies counts the children of a process that have ended and were not waited for.
func zombies(t *testing.T, parent int) (n int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	mine := fmt.Sprintf(" Z %d ", parent)
	for _, name := range all {
		if text, err := os.ReadFile(name); err == nil && strings.Contains(string(text), mine) {
			n++
		}
	}
	return n
}

// The original leaves a zombie for each job. Ours waits for its children: those of the fake beside it are the only
// ones.
func reaped(t *testing.T) {
	p := launch(t, nil, "serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--compute-local", "4",
		"--compute-sandbox", "none", "--log-level", "error")
	d := &death{T: t, server: p, latch: newLatch(t), mark: "86400.0", service: "default"}
	d.latch.lift()
	for range 10 {
		d.submit()
		d.until(compute.Completed)
	}
	eventually(t, "no zombie is left", func() bool { return zombies(t, p.cmd.Process.Pid) == 0 })
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their := theirs(t, example(c))
	their.until(their.upload(script("true")), "Completed")
	eventually(t, "control: the original's zombie", func() bool { return zombies(t, os.Getpid()) > 0 })
}

// A job that ignores the signal, with a child and a daemon, is gone as a whole before it is called Killed. The original
// ends its shell.
func wholeTree(t *testing.T) {
	body := func(mark string, l *latch) string {
		return "sleep " + mark + " &\n(setsid bash -c \"trap '' TERM; sleep " + mark + "\" &)\n" + l.wait()
	}
	l, mark := newLatch(t), fmt.Sprintf("86500.%d", os.Getpid())
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their := theirs(t, example(c))
	id := their.upload(script("sleep " + mark + "1 &\n" + l.wait()))
	l.arrived(1)
	their.until(id, "Running")
	eventually(t, "control: it runs", func() bool { return alive(t, mark+"1") })
	their.terminate(id)
	if their.until(id, "Killed"); !alive(t, mark+"1") {
		t.Error("control: the original ends the whole tree")
	}
	mine := newLatch(t)
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	id = s.upload("trap '' TERM\n" + body(mark+"2", mine))
	mine.arrived(1)
	s.await(id, compute.Running)
	eventually(t, "control: it runs", func() bool { return alive(t, mark+"2") })
	s.terminate(id)
	s.ends(id, compute.Killed, compute.CauseKilled)
	if alive(t, mark+"2") {
		t.Error("it is called Killed, and something of it goes on")
	}
}

// The first decides, and a job that is Completed has its results.
func guarded(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	var all sync.WaitGroup
	for range 8 {
		id := s.upload(script("echo made >made.txt"))
		all.Go(func() {
			for range 3 {
				s.terminate(id)
			}
		})
		all.Go(func() {
			switch s.until(id, "Completed", "Killed", "Failed").Status {
			case "Completed":
				has(t, s.results(id), "made.txt")
			case "Failed":
				t.Error("it failed")
			}
		})
	}
	all.Wait()
	if s.holding() != 0 {
		t.Error("a slot is held")
	}
	t.Run("Completed", terminateCompleted)
	t.Run("Queued", terminateQueued)
}

// The original does not count what waits at the client. Ours never has more than the quota there.
func quota(t *testing.T) {
	const most, jobs = 2, 6
	c := wiretest.Client(t, wiretest.ClientOptions{Interval: time.Hour}) // all stay Prepared
	o := wiretest.ServiceAt(c.URL)
	o.RunsPerUser = most
	their := user{T: t, url: wiretest.Server(t,
		wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": o}}).URL}
	for range jobs {
		their.upload(script("true"))
	}
	c.Await("control: the original's overshoot", func() bool { return len(c.Submissions()) > most })
	var mu sync.Mutex
	now, top := 0, 0
	step := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		now += n
		top = max(top, now)
	}
	ours := wiretest.Client(t, wiretest.ClientOptions{Run: func(ctx context.Context, _ string) int {
		step(1)
		defer step(-1)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // a job takes its time
		}
		return 0
	}})
	s := open(t, with(original(t, ours, nil)), func(s *setting) { s.compute.Services[0].RunsPerUser = most })
	var ids []int
	for range jobs {
		ids = append(ids, s.upload(script("true")))
	}
	for _, id := range ids {
		s.ends(id, compute.Completed, "")
	}
	if top > most || s.holding() != 0 {
		t.Errorf("%d at once, %d slots are held", top, s.holding())
	}
}

// An answer that is lost costs the original's job at once. Ours asks our agent, which ran it once; with an original
// client it reports that it is lost, or sends again if that is wanted.
func lostAnswer(t *testing.T) {
	lose := wiretest.Fault{Path: "/submit", Lose: true, Times: 1}
	c := wiretest.Client(t, wiretest.ClientOptions{})
	c.Break(lose)
	their := theirs(t, example(c))
	their.until(their.upload(script("true")), "Failed")
	for _, resend := range []bool{false, true} {
		c := wiretest.Client(t, wiretest.ClientOptions{})
		c.Break(lose)
		s := open(t, with(original(t, c, func(o *legacy.Options) {
			o.Resend = resend
		})), func(s *setting) { s.compute.Resend = resend })
		id := s.upload(script("true"))
		if resend {
			s.ends(id, compute.Completed, "")
			continue
		}
		s.ends(id, compute.Failed, compute.CauseLost)
		if now := s.status(id); !contains(now.Message, "lost") || len(c.Submissions()) != 1 {
			t.Errorf("%+v, submitted %d times", now, len(c.Submissions()))
		}
	}
	a := employ(t, nil)
	g := newGate(t, a.url)
	g.harm("submit", answerLost, 0, 1)
	s := open(t, with(dial(t, g.url)), nil)
	s.ends(s.upload("true"), compute.Completed, "")
	if g.struck("submit"); a.runs.count() != 1 {
		t.Errorf("it ran %d times", a.runs.count())
	}
}

// Every limit ends a job for its own cause. At the original nothing would.
func limited(t *testing.T) {
	for _, one := range []struct {
		limits compute.Limits
		body   string
		cause  string
	}{
		{compute.Limits{Wall: 5 * time.Second}, "sleep 600", compute.CauseTimeout},
		{compute.Limits{CPU: time.Second}, "while :; do :; done", compute.CauseCPU},
		{compute.Limits{Memory: 32 << 20}, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); sleep 600", compute.CauseMemory},
		{compute.Limits{Disk: 1 << 20}, "head -c 50000000 /dev/zero >big; sleep 600", compute.CauseDisk},
	} {
		t.Run(one.cause, func(t *testing.T) {
			t.Parallel()
			s := open(t, with(dial(t, employ(t, nil).url)), func(s *setting) {
				s.compute.Services[0].Limits = one.limits
			})
			id := s.upload("echo begun >begun.txt\n" + one.body)
			s.ends(id, compute.Failed, one.cause)
			if now := s.status(id); now.Reason != one.cause || now.Message == "" {
				t.Errorf("got %+v", now)
			}
			if code, files := s.partial(id); code != http.StatusOK || files["begun.txt"] == "" {
				t.Errorf("what it had made is lost: %d", code)
			}
		})
	}
}
