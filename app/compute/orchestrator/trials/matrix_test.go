//go:build linux

package trials

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/mem"
)

// rows is the failure matrix of the original, with what must come of each event instead. Those in which the server is
// killed are in [restarts].
var rows = []struct {
	event string
	trial func(t *testing.T)
}{
	{"client down at dispatch", clientDown},
	{"client accepts TCP but hangs at submit", hangsAtSubmit},
	{"client hangs at retrieve", hangsAtRetrieve},
	{"server killed while Processing", killedInProcessing},
	{"server killed between the two UPDATEs", killedBetween},
	{"server killed during terminate", killedInTerminate},
	{"client restarted, jobs survive as orphans", clientRestarted},
	{"client container restarted", containerRestarted},
	{"client DB wiped, ids restart at 1", wiped},
	{"client 404 or 5xx on retrieve", refusesRetrieve},
	{"results zip fails once", zipFailsOnce},
	{"second poll while the client is zipping", halfZipped},
	{"MAX_AGE passes while running", agedWhileRunning},
	{"terminate of Completed", terminateCompleted},
	{"terminate of Queued", terminateQueued},
	{"non-zero exit", nonZero},
}

// TestMatrix goes through the rows.
func TestMatrix(t *testing.T) {
	for _, row := range rows {
		t.Run(row.event, func(t *testing.T) { t.Parallel(); row.trial(t) })
	}
}

// theirs is an original server with an original client for each service.
func theirs(t *testing.T, clients map[string]*wiretest.FakeClient) user {
	t.Helper()
	o := wiretest.ServerOptions{Services: map[string]wiretest.Service{}}
	for name, c := range clients {
		o.Services[name] = wiretest.ServiceAt(c.URL)
	}
	return user{T: t, url: wiretest.Server(t, o).URL}
}

func example(c *wiretest.FakeClient) map[string]*wiretest.FakeClient {
	return map[string]*wiretest.FakeClient{"example": c}
}

// The original loses the job at once. Ours waits in the queue and reports why; with the original's setting it fails,
// and reports why, too.
func clientDown(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	c.Down()
	their := theirs(t, example(c))
	if s := their.until(their.upload(script("true")), "Failed"); s.Message != "" {
		t.Errorf("control: got %+v", s)
	}
	// so long between two attempts at most
	s := open(t, with(original(t, c, nil)), func(s *setting) { s.compute.RetryFor = 3 * time.Second })
	id := s.upload(script("true"))
	eventually(t, "the first attempt", func() bool { return s.data(id).Tries > 0 })
	if now := s.status(id); now.Status != "Queued" {
		t.Errorf("got %+v", now)
	}
	c.Up()
	s.ends(id, compute.Completed, "")
	c.Down()
	once := open(t, with(original(t, c, nil)), func(s *setting) { s.compute.Retries = 1 })
	id = once.upload(script("true"))
	once.ends(id, compute.Failed, compute.CauseAgents)
	if now := once.status(id); now.Status != "Failed" || !contains(now.Message, "cannot be reached") ||
		now.Reason != compute.CauseAgents {
		t.Errorf("got %+v", now)
	}
}

// services are two on two original clients, of which the first misbehaves.
func services(t *testing.T) (bad, good *wiretest.FakeClient, s *server, their user) {
	bad, good = wiretest.Client(t, wiretest.ClientOptions{}), wiretest.Client(t, wiretest.ClientOptions{})
	agents := map[string]compute.Executor{"bad": original(t, bad, nil), "good": original(t, good, nil)}
	s = open(t, agents, func(s *setting) {
		s.compute.Services = []compute.Service{{Name: "bad", Agents: []string{"bad"}},
			{Name: "good", Agents: []string{"good"}}}
	})
	return bad, good, s, theirs(t, map[string]*wiretest.FakeClient{"bad": bad, "good": good})
}

// The original dispatches nothing any more, for any service. With ours the hung client harms itself alone, and its job
// is settled when it answers.
func hangsAtSubmit(t *testing.T) {
	bad, _, s, their := services(t)
	bad.Break(wiretest.Fault{Path: "/submit", Hang: true})
	files := map[string]string{"run.sh": script("true")}
	stuck := their.uploadTo("bad", 1, files)
	their.until(stuck, "Processing")
	bad.Await("the original's submission", func() bool { return len(bad.Requests()) > 0 })
	waits := their.uploadTo("good", 2, files)
	mine := s.uploadTo("bad", 1, files)
	s.await(mine, compute.Processing)
	for range 3 {
		s.ends(s.uploadTo("good", 2, files), compute.Completed, "")
	}
	if now := their.status(waits); now.Status != "Queued" {
		t.Errorf("control: the original dispatches while a client hangs: %+v", now)
	}
	bad.Heal()
	j := s.await(mine, compute.Completed, compute.Failed)
	if n := len(bad.Submissions()); j.State == compute.Failed && j.Cause != compute.CauseLost || n > 1 {
		t.Errorf("%s (%s), submitted %d times", j.State, j.Cause, n)
	}
	if n := s.holding(); n != 0 {
		t.Errorf("%d slots are held", n)
	}
}

// The original learns of no completion any more. With ours only the job whose question hangs waits.
func hangsAtRetrieve(t *testing.T) {
	bad, _, s, their := services(t)
	bad.Break(wiretest.Fault{Path: "/retrieve/1", Hang: true})
	files := map[string]string{"run.sh": script("echo made >made.txt")}
	mine := s.uploadTo("bad", 1, files)
	bad.Await("our question", func() bool { return bad.Status(1) == "Completed" })
	after := s.uploadTo("bad", 1, files) // on the same client
	s.ends(after, compute.Completed, "")
	bad.Break(wiretest.Fault{Path: "/retrieve/3", Hang: true})
	their.uploadTo("bad", 1, files)
	asked := func() bool {
		for _, r := range bad.Requests() {
			if r == "GET /retrieve/3" {
				return true
			}
		}
		return false
	}
	bad.Await("the original's question", asked)
	waits := their.uploadTo("good", 2, files)
	s.ends(s.uploadTo("good", 2, files), compute.Completed, "")
	if now := their.status(waits); now.Status == "Completed" {
		t.Errorf("control: the original learns of completions while a client hangs: %+v", now)
	}
	bad.Heal()
	s.ends(mine, compute.Completed, "")
	has(t, s.results(mine), "made.txt")
}

// Jobs of a client that is away for a while are found again, and run once.
func clientRestarted(t *testing.T) {
	l := newLatch(t)
	c := wiretest.Client(t, wiretest.ClientOptions{})
	s := open(t, with(original(t, c, nil)), nil)
	id := s.upload(script(l.wait() + "echo made >made.txt"))
	l.arrived(1)
	s.await(id, compute.Running)
	c.Down()
	s.await(id, compute.Unknown) // the truth, and the slot is held
	if n := s.holding(); n != 1 {
		t.Errorf("%d slots are held", n)
	}
	l.lift()
	c.Up()
	s.ends(id, compute.Completed, "")
	if has(t, s.results(id), "made.txt"); l.runs() != 1 || len(c.Submissions()) != 1 {
		t.Errorf("%d runs", l.runs())
	}
}

// A job whose process ended with its container is Running indefinitely at the original. Ours ends it when its time is
// up, and gives the slot back; with our agent that is known at once (see TestKills).
func containerRestarted(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{Run: func(context.Context, string) int { return wiretest.Dead }})
	their := theirs(t, example(c))
	stuck := their.upload(script("true"))
	their.until(stuck, "Running")
	clock := newSkewed()
	s := open(t, with(original(t, c, nil)), func(s *setting) {
		s.engine.Clock = clock
		s.compute.Services[0].Limits.Wall = patience
	})
	id := s.upload(script("true"))
	s.await(id, compute.Running)
	clock.by.Store(int64(10 * time.Minute))
	j := s.await(id, compute.Killed, compute.Failed)
	if j.Cause != compute.CauseTimeout || s.holding() != 0 {
		t.Errorf("%s (%s: %s), %d slots are held", j.State, j.Cause, j.Message, s.holding())
	}
	if now := their.status(stuck); now.Status != "Running" {
		t.Errorf("control: got %+v", now)
	}
}

// The original gives user 1 what user 2's job made. Ours gives it to no one, with an original client and with our
// agent.
func wiped(t *testing.T) {
	t.Run("original client", func(t *testing.T) {
		l := newLatch(t)
		runs := 0
		run := func(c *wiretest.FakeClient, u user) (first, second int) {
			// there is no query between the loss and the next submission
			c.Break(wiretest.Fault{Path: "/retrieve/", Code: 503})
			first = u.uploadTo("example", 1, map[string]string{"run.sh": script(l.wait())})
			runs++
			l.arrived(runs)
			u.until(first, "Submitted", "Prepared", "Unknown") // its server has the id
			c.Wipe()
			second = u.uploadTo("example", 2, map[string]string{"run.sh": script("echo secret >secret.txt")})
			c.Await("the second", func() bool { return c.Status(1) == "Completed" })
			c.Heal()
			return first, second
		}
		mixed := false
		for tries := 0; tries < 5 && !mixed; tries++ {
			// who asks the original client first after its loss is left to chance
			c := wiretest.Client(t, wiretest.ClientOptions{})
			their := theirs(t, example(c))
			runs = 0
			l = newLatch(t)
			first, _ := run(c, their)
			their.until(first, "Completed")
			mixed = their.results(first)["secret.txt"] != ""
		}
		if !mixed {
			t.Error("control: the original keeps users apart")
		}
		runs, l = 0, newLatch(t)
		c := wiretest.Client(t, wiretest.ClientOptions{})
		s := open(t, with(original(t, c, nil)), nil)
		first, second := run(c, s.user)
		s.await(second, compute.Completed, compute.Failed)
		if j := s.await(first, compute.Completed, compute.Failed); j.State == compute.Completed {
			t.Errorf("user 1 gets %v", s.results(first))
		}
		if _, files := s.partial(first); files["secret.txt"] != "" {
			t.Error("user 1 gets what user 2's job made, in part")
		}
	})
	t.Run("our agent", func(t *testing.T) {
		l := newLatch(t)
		a := employ(t, nil)
		f := wiretest.Server(t,
			wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(a.url)}})
		one := f.Submit(1, "example", map[string]string{"run.sh": script("true")})
		f.Await(one, "Completed")
		s := open(t, with(dial(t, a.url)), nil)
		id := s.upload(script(l.wait()))
		l.arrived(1)
		s.await(id, compute.Running)
		_, dest := f.Job(one)
		a.stop()
		next := employOn(t, mem.New(), agent.HandlerOptions{}, func(o *agent.Options) { o.Dir = t.TempDir() })
		if code, _, _ := (user{T: t, url: next.url}).do("GET", fmt.Sprintf("/retrieve/%d", dest), "",
			nil); code != http.StatusNotFound || dest < 2 {
			t.Errorf("payload %d of an agent that forgot everything: %d", dest, code)
		}
		s.app.Join("a1", dial(t, next.url)) // the same agent, without its memory
		s.ends(id, compute.Failed, compute.CauseLost)
		if l.runs() != 1 {
			t.Errorf("%d runs", l.runs())
		}
	})
}

// The original asks indefinitely. Ours ends the job: it is lost, or its results are; the slot is free.
func refusesRetrieve(t *testing.T) {
	for _, one := range []struct {
		fault []wiretest.Fault
		state string
		cause string
	}{
		{[]wiretest.Fault{{Path: "/retrieve/", Code: 404}}, "Failed", compute.CauseLost},
		{[]wiretest.Fault{{Path: "/retrieve", Code: 500}}, "Failed", compute.CauseResults},
		{[]wiretest.Fault{{Path: "/retrieve/", Code: 500, Times: 1}}, "Completed", ""},
		{[]wiretest.Fault{{Path: "/retrieve/", Code: 503, Times: 3}}, "Completed", ""},
	} {
		c := wiretest.Client(t, wiretest.ClientOptions{})
		for _, f := range one.fault {
			c.Break(f)
		}
		s := open(t, with(original(t, c, nil)), nil)
		id := s.upload(script("echo made >made.txt"))
		j := s.await(id, compute.Completed, compute.Failed)
		if string(j.State) != one.state || j.Cause != one.cause || s.holding() != 0 {
			t.Errorf("%+v: %s (%s: %s), %d slots", one.fault, j.State, j.Cause, j.Message, s.holding())
		}
		if len(c.Submissions()) != 1 {
			t.Errorf("%+v: submitted %d times", one.fault, len(c.Submissions()))
		}
	}
}

const five = "for i in 1 2 3 4 5; do echo $i >out$i.txt; done"

var fiveNames = []string{"out1.txt", "out2.txt", "out3.txt", "out4.txt", "out5.txt"}

// The original serves the cut leftover next, as if it were the whole. Ours takes what there is from the directory.
func zipFailsOnce(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	c.Leftover(3)
	their := theirs(t, example(c))
	id := their.upload(script(five))
	their.until(id, "Completed")
	if files := their.results(id); len(files) > 4 {
		t.Errorf("control: the original loses nothing: %v", files)
	}
	c.Leftover(3)
	s := open(t, with(original(t, c, nil)), nil)
	id = s.upload(script(five))
	s.ends(id, compute.Completed, "")
	if has(t, s.results(id), fiveNames...); !s.data(id).Results.Partial {
		t.Error("the results are not marked as taken from the directory")
	}
	// what makes it fail at the original: with our agent nothing does
	mine := open(t, with(dial(t, employ(t, nil).url)), nil)
	id = mine.upload(script(five + "; ln -s /nowhere dangling; echo >a..b; mkfifo pipe; mkdir shut; chmod 0 shut"))
	mine.ends(id, compute.Completed, "")
	has(t, mine.results(id), append(fiveNames, "a..b")...)
}

// The original serves a ZIP without its end. Ours reads it to its end, and takes it anew.
func halfZipped(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	c.Break(wiretest.Fault{Path: "/retrieve/", Cut: 200})
	their := theirs(t, example(c))
	id := their.upload(script(five))
	their.until(id, "Completed")
	if _, _, text := their.do("GET", "/download/1", "", nil); len(text) != 200 {
		t.Errorf("control: the original serves %d bytes", len(text))
	}
	for _, f := range []wiretest.Fault{{Path: "/retrieve/", Cut: 200}, {Path: "/retrieve/", Break: 200}} {
		c.Heal()
		c.Break(f)
		s := open(t, with(original(t, c, nil)), nil)
		id = s.upload(script(five))
		s.ends(id, compute.Completed, "")
		has(t, s.results(id), fiveNames...)
		if r := s.data(id).Results; !r.Partial || r.Sentence == "" {
			t.Errorf("got %+v", r)
		}
	}
}

// The original removes the directory of a job that runs. With ours the time is counted from the end.
func agedWhileRunning(t *testing.T) {
	l, clock := newLatch(t), newSkewed()
	a := employWith(t, mem.New(), agent.HandlerOptions{}, func(o *agent.Options) {
		o.Keep = 10 * patience
	}, func(o *engine.Options) {
		o.Clock, o.Lease = clock, 100*patience // nothing has to hurry by the clock that is put forward
	})
	s := open(t, with(dial(t, a.url)), func(s *setting) {
		s.compute.Keep = 50 * time.Millisecond
		s.engine.Retain = engine.Retention{Every: 20 * time.Millisecond}
	})
	// gives no receipts
	f := wiretest.Server(t,
		wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(a.url)}})
	f.Await(f.Submit(1, "example", map[string]string{"run.sh": "true"}), "Completed")
	long := s.upload(script("echo first >first.txt\n" + l.wait() + "cat first.txt >second.txt"))
	l.arrived(1)
	s.await(long, compute.Running)
	held := func() int { return len(inside(t, filepath.Join(a.dir, "payloads"))) }
	if n := held(); n != 2 {
		t.Errorf("the agent has the files of %d payloads", n)
	}
	clock.by.Store(int64(20 * patience))
	eventually(t, "control: the age of what has ended passes at the agent", func() bool { return held() == 1 })
	for range 3 { // others end and are cleaned meanwhile
		short := s.upload(script("true"))
		s.await(short, compute.Cleaned)
		if now := s.status(short); now.Status != "Cleaned" {
			t.Errorf("got %+v", now)
		}
	}
	if now := s.status(long); now.Status != "Running" {
		t.Errorf("got %+v", now)
	}
	l.lift()
	s.await(long, compute.Completed, compute.Cleaned)
	s.await(long, compute.Cleaned)
	events, err := s.store.History(t.Context(), s.job(long).ID, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if last := events[len(events)-1]; last.From != compute.Completed {
		t.Errorf("it was %s before it was cleaned", last.From)
	}
	eventually(t, "its files are removed", func() bool {
		found, err := filepath.Glob(filepath.Join(s.dir, "compute", "jobs", "*", "cmp_*"))
		return err == nil && len(found) == 0
	})
}

// The original takes the results away. Ours reports that it is over, and leaves them.
func terminateCompleted(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their := theirs(t, example(c))
	id := their.upload(script("echo made >made.txt"))
	their.until(id, "Completed")
	if code, _ := their.terminate(id); code != 200 || their.status(id).Status != "Killed" {
		t.Error("control: the original keeps the results")
	}
	for name, x := range map[string]compute.Executor{"original": original(t, c, nil),
		"ours": dial(t, employ(t, nil).url)} {
		s := open(t, with(x), nil)
		id = s.upload(script("echo made >made.txt"))
		s.ends(id, compute.Completed, "")
		for range 2 {
			if code, message := s.terminate(id); code != 200 || message != "job already completed" {
				t.Errorf("%s: %d %q", name, code, message)
			}
		}
		has(t, s.results(id), "made.txt")
	}
}

// The original answers 500. Ours cancels it before it is sent anywhere.
func terminateQueued(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{Run: func(ctx context.Context, _ string) int {
		<-ctx.Done()
		return 0
	}})
	f := wiretest.Server(t,
		wiretest.ServerOptions{
			Services: map[string]wiretest.Service{"example": {Upload: "http://127.0.0.1:1/submit",
				Terminate: "http://127.0.0.1:1/kill", Download: "http://127.0.0.1:1/retrieve", MaxRuns: -1}}})
	their := user{T: t, url: f.URL}
	if code, message := their.terminate(their.upload(script("true"))); code != 500 ||
		message != "could not terminate job" {
		t.Errorf("control: %d %q", code, message)
	}
	s := open(t, with(original(t, c, nil)), func(s *setting) { s.compute.Services[0].MaxRuns = 1 })
	first := s.upload(script("true"))
	s.await(first, compute.Running)
	second := s.upload(script("true"))
	if now := s.status(second); now.Status != "Queued" || now.Position != 1 {
		t.Errorf("got %+v", now)
	}
	if code, message := s.terminate(second); code != 200 || message != "job terminated" ||
		s.status(second).Status != "Killed" {
		t.Errorf("%d %q", code, message)
	}
	if n := len(c.Submissions()); n != 1 {
		t.Errorf("%d were sent", n)
	}
}

// The original leaves the output with the client. Ours has it, and reports how the job ended.
func nonZero(t *testing.T) {
	files := map[string]string{"run.sh": script("echo made >made.txt; echo oh >&2; exit 3")}
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their, s := theirs(t, example(c)), open(t, with(original(t, c, nil)), nil)
	id, mine := their.uploadTo("example", 1, files), s.uploadTo("example", 1, files)
	their.until(id, "Failed")
	s.ends(mine, compute.Failed, compute.CauseExit)
	c.Down()
	if code, _ := their.partial(id); code != 500 {
		t.Errorf("control: %d", code)
	}
	if code, got := s.partial(mine); code != 200 || got["made.txt"] != "made\n" {
		t.Errorf("%d %v", code, got)
	}
	if now := s.status(mine); now.Status != "Failed" || now.Message == "" {
		t.Errorf("got %+v", now)
	}
	a := employ(t, nil)
	s = open(t, with(dial(t, a.url)), nil)
	mine = s.uploadTo("example", 1, files)
	s.ends(mine, compute.Failed, compute.CauseExit)
	a.gone()
	if now := s.status(mine); now.Status != "Failed" || now.ExitCode == nil || *now.ExitCode != 3 ||
		!contains(now.Message, "exit code 3") {
		t.Errorf("got %+v", now)
	}
	if code, got := s.partial(mine); code != 200 || got["made.txt"] != "made\n" || got["stderr"] != "oh\n" {
		t.Errorf("%d %v", code, got)
	}
}
