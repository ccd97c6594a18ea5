package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// TestLostAnswer loses what sbatch printed: the job is in the queue, and the server does not know its number.
func TestLostAnswer(t *testing.T) {
	for name, failure := range map[string]fakeFailure{
		"an error":  {Message: "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", After: true},
		"no number": {Message: "sbatch: error: Broken pipe", After: true, Out: "Submitted\n"},
	} {
		f, o := newFake(t)
		s := open(t, o)
		p := script("lost_1", "exit 0")
		f.change(func(st *fakeState) { st.Fail["sbatch"] = failure })
		_, err := s.Submit(context.Background(), p)
		var no *compute.Refusal
		if err == nil || errors.Is(err, compute.ErrNotSent) || errors.As(err, &no) {
			t.Errorf("%s: a lost answer is no answer: %v", name, err)
		}
		f.change(func(st *fakeState) { delete(st.Fail, "sbatch") })
		for range 3 {
			if n := submit(t, open(t, o), p); n.Standing != compute.Waits || n.Remote != "101" {
				t.Errorf("%s: settled: %+v", name, n)
			}
		}
		if sent := f.state().Sent; sent != 1 {
			t.Errorf("%s: sbatch was called %d times", name, sent)
		}
	}
}

// TestLostAnswerControl is the control of TestLostAnswer: without Slurm's word for the name, sbatch is called again.
func TestLostAnswerControl(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("lost_1", "exit 0")
	f.change(func(st *fakeState) {
		st.Fail["sbatch"] = fakeFailure{Message: "sbatch: error: Socket timed out", After: true}
	})
	if _, err := s.Submit(context.Background(), p); err == nil {
		t.Fatal("no error")
	}
	f.change(func(st *fakeState) { delete(st.Fail, "sbatch") })
	f.set("lost_1", func(j *fakeJob) { j.Hidden = true })
	submit(t, s, p)
	if sent := f.state().Sent; sent != 2 {
		t.Errorf("sbatch was called %d times", sent)
	}
}

// TestSecondJob has a lost job appear after a second one was handed over: it is cancelled, and the one that has the
// claim is the payload's.
func TestSecondJob(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("second_1", "exit 0")
	submit(t, s, p)
	f.change(func(st *fakeState) {
		late := st.Jobs[0]
		late.ID = "102"
		st.Jobs = append(st.Jobs, late)
	})
	follow(t, s, handle(p), "cleared", func(compute.Notice) bool { return f.state().Jobs[1].State == "CANCELLED" })
	if st := f.state().Jobs[0].State; st != "PENDING" {
		t.Errorf("the first is %s", st)
	}
}

// TestUnsent has sbatch refuse in its ways.
func TestUnsent(t *testing.T) {
	for _, test := range []struct {
		message       string
		refused, sure bool
	}{
		{"sbatch: error: Batch job submission failed: Invalid partition name specified", true, false},
		{"sbatch: error: Batch job submission failed: Requested node configuration is not available", true, false},
		{"sbatch: error: Memory specification can not be satisfied", true, false},
		{"sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)", false, true},
		{"sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)", false, true},
		{"sbatch: error: Batch job submission failed: Socket timed out on send/recv operation", false, false},
		{"sbatch: error: something new", false, false},
	} {
		f, o := newFake(t)
		s := open(t, o)
		p := script("unsent_1", "exit 0")
		f.change(func(st *fakeState) { st.Fail["sbatch"] = fakeFailure{Message: test.message} })
		_, err := s.Submit(context.Background(), p)
		var no *compute.Refusal
		if refused := errors.As(err, &no); err == nil || refused != test.refused || refused && !no.Here ||
			errors.Is(err, compute.ErrNotSent) != test.sure {
			t.Errorf("%q: %v", test.message, err)
		}
		if there := exists(o.Dir, "unsent_1.1"); there == (test.refused || test.sure) {
			t.Errorf("%q: its directory is there: %v", test.message, there)
		}
		f.change(func(st *fakeState) { delete(st.Fail, "sbatch") })
		if n := submit(t, s, p); n.Standing != compute.Waits || f.state().Sent != 1 {
			t.Errorf("%q: sent again: %+v", test.message, n)
		}
	}
}

// TestNoAnswer takes squeue away: an error is no answer, and nothing is concluded.
func TestNoAnswer(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("silent_1", "exit 0")
	submit(t, s, p)
	down := fakeFailure{Message: "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"}
	f.change(func(st *fakeState) { st.Fail["squeue"] = down })
	s = open(t, o) // it has no reports yet
	if n, err := s.Query(context.Background(), handle(p)); err == nil {
		t.Errorf("squeue is down: %+v", n)
	}
	if err := s.Notify(context.Background(), func() {}, func(job.ID) {}); err == nil ||
		!strings.Contains(err.Error(), "Unable to contact") {
		t.Errorf("squeue is down: Notify gives %v", err)
	}
	f.change(func(st *fakeState) { delete(st.Fail, "squeue"); st.Odd = "what|is|this\n" })
	f.set("silent_1", func(j *fakeJob) { j.Hidden = true })
	if n, err := s.Query(context.Background(), handle(p)); err == nil {
		t.Errorf("squeue cannot be read: %+v", n)
	}
	f.change(func(st *fakeState) { st.Odd = "" })
	if n, err := s.Query(context.Background(), handle(p)); err != nil || n.Standing != compute.Lost {
		t.Errorf("Slurm has forgotten it: %+v, %v", n, err)
	}
}

// TestForgotten has Slurm forget jobs: what was written down, or the accounting, reports how they ended.
func TestForgotten(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	wrote, booked, nowhere := script("forgotten_1", "x"), script("forgotten_2", "x"), script("forgotten_3", "x")
	for _, p := range []*compute.Parcel{wrote, booked, nowhere} {
		submit(t, s, p)
		f.set(string(p.Job), func(j *fakeJob) { j.State, j.Exit, j.Hidden = "FAILED", "4:0", true })
	}
	text := `{"exit":5,"signal":0,"cause":"","told":false,"started":1767225600,"finished":1767225605,"wall_ms":5000,"cpu_ms":10,"disk":4,"cut":true,"place":"n7"}`
	if err := os.WriteFile(filepath.Join(o.Dir, "forgotten_1.1", exitFile), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := mustLook(t, s,
		wrote); n.Standing != compute.Ended || n.Ending.Exit != 5 || n.Place != "n7" || !n.Ending.LogCut ||
		n.Ending.WallMS != 5000 || n.Ending.Disk != 4096 || !n.HasResult {
		t.Errorf("exit.json: %+v, %+v", n, n.Ending)
	}
	if n := follow(t, s, handle(nowhere), "lost", func(n compute.Notice) bool {
		return n.Standing == compute.Lost
	}); n.Remote != "103" {
		t.Errorf("nothing is known: %+v", n)
	}
	f.change(func(st *fakeState) { st.Book = true })
	s = open(t, o) // it has not learned that there is no accounting
	if n := ended(t, s, booked); n.Ending.Exit != 4 || n.Ending.Memory != 2<<20 || n.Ending.CPUMS != 5000 {
		t.Errorf("accounting: %+v, %+v", n, n.Ending)
	}
	f.change(func(st *fakeState) { st.Book = false })
	if n := mustLook(t, open(t, o), booked); n.Ending == nil || n.Ending.Exit != 4 {
		t.Errorf("an end that was reported once is not what it was: %+v", n)
	}
}

// TestUnknownState shows an unknown word, and goes on.
func TestUnknownState(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("odd_1", "exit 0")
	submit(t, s, p)
	f.set("odd_1", func(j *fakeJob) { j.State = "HOVERING" })
	n := follow(t, s, handle(p), "hovering", func(n compute.Notice) bool {
		return strings.Contains(n.Reason, "HOVERING")
	})
	if n.Standing != compute.Works {
		t.Errorf("got %+v", n)
	}
	f.set("odd_1", func(j *fakeJob) { j.State, j.Exit = "FAILED", "2:0" })
	if n := ended(t, s, p); n.Ending.Exit != 2 {
		t.Errorf("got %+v", n.Ending)
	}
}

// TestOneQuestion inspects many payloads at a time: squeue is asked a few times, not for each.
func TestOneQuestion(t *testing.T) {
	f, o := newFake(t)
	o.Poll = time.Hour
	s := open(t, o)
	var all []*compute.Parcel
	for _, id := range []string{"one_1", "one_2", "one_3", "one_4", "one_5", "one_6"} {
		p := script(id, "exit 0")
		all = append(all, p)
		submit(t, s, p)
	}
	before := f.state().Asks["squeue"]
	done := make(chan error)
	for i := range 60 {
		go func() {
			n, err := s.Query(context.Background(), handle(all[i%len(all)]))
			if err == nil && n.Standing != compute.Waits {
				err = errors.New(n.Reason)
			}
			done <- err
		}()
	}
	for range 60 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if asks := f.state().Asks["squeue"] - before; asks > 1 {
		t.Errorf("squeue was asked %d times for 60 queries", asks)
	}
}

// TestKillUnsent ends payloads that Slurm may not have: none is handed over afterwards.
func TestKillUnsent(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("unsent_2", "exit 0")
	f.change(func(st *fakeState) { st.Fail["sbatch"] = fakeFailure{Message: "sbatch: error: Socket timed out"} })
	if _, err := s.Submit(context.Background(), p); err == nil {
		t.Fatal("no error")
	}
	f.change(func(st *fakeState) { delete(st.Fail, "sbatch") })
	if err := s.Kill(context.Background(), handle(p)); err != nil {
		t.Fatal(err)
	}
	if n := submit(t, s, p); n.Standing != compute.Ended || n.Ending.Cause != compute.CauseKilled || n.HasResult ||
		f.state().Sent != 0 {
		t.Errorf("got %+v, %+v", n, n.Ending)
	}
	unknown := handle(script("unknown_1", ""))
	if err := s.Kill(context.Background(), unknown); !errors.Is(err, compute.ErrNoPayload) {
		t.Errorf("an unknown payload: %v", err)
	}
	if n, err := s.Query(context.Background(), unknown); err != nil || n.Standing != compute.Stranger {
		t.Errorf("an unknown payload: %+v, %v", n, err)
	}
	unknown.Instance = "another"
	if n, err := s.Query(context.Background(), unknown); err != nil || n.Standing != compute.Lost {
		t.Errorf("another memory may know it: %+v, %v", n, err)
	}
}

// TestKillOnlyByName has Slurm give a payload's number to another user's job: that one is not cancelled.
func TestKillOnlyByName(t *testing.T) {
	f, o := newFake(t)
	s := open(t, o)
	p := script("number_1", "exit 0")
	submit(t, s, p)
	f.change(func(st *fakeState) { st.Jobs[0].Name = "precious" })
	if err := s.Kill(context.Background(), handle(p)); err != nil {
		t.Fatal(err)
	}
	if st := f.state().Jobs[0].State; st != "PENDING" {
		t.Errorf("another's job is %s", st)
	}
	// The control: under its own name it is.
	f.change(func(st *fakeState) { st.Jobs[0].Name = "stagepost-number_1-1" })
	if err := s.Kill(context.Background(), handle(p)); err != nil {
		t.Fatal(err)
	}
	if st := f.state().Jobs[0].State; st != "CANCELLED" {
		t.Errorf("its job is %s", st)
	}
}

// TestRefuses submits what can never run, and what differs from its description.
func TestRefuses(t *testing.T) {
	f, o := newFake(t)
	o.Services = []string{"example"}
	s := open(t, o)
	for name, p := range map[string]*compute.Parcel{
		"no run.sh": parcel("bad_1", map[string]string{"data": "x"}),
		"a path":    parcel("bad_2", map[string]string{"run.sh": "x", "../../x": "x"}),
		"dots":      parcel("bad_3", map[string]string{"run.sh": "x", "..": "x"}),
		"an id":     script("../bad", "x"),
		"an option": script("-bad", "x"),
		"a variable": {Ticket: compute.Ticket{Job: "bad_4", Attempt: 1}, Service: "example",
			Files: []compute.File{{Name: "run.sh"}}, Env: map[string]string{"A=B;": "x"}},
		"a service": {Ticket: compute.Ticket{Job: "bad_5", Attempt: 1}, Service: "other",
			Files: []compute.File{{Name: "run.sh"}}},
		"a limit": {Ticket: compute.Ticket{Job: "bad_6", Attempt: 1}, Service: "example",
			Files: []compute.File{{Name: "run.sh"}}, Limits: compute.Limits{Wall: -1}},
	} {
		_, err := s.Submit(context.Background(), p)
		var no *compute.Refusal
		if !errors.As(err, &no) || no.Here != (name == "a service") {
			t.Errorf("%s: %v", name, err)
		}
	}
	changed := script("bad_7", "exit 0")
	changed.Files[0].SHA256 = strings.Repeat("0", 64)
	short := script("bad_8", "exit 0")
	short.Files[0].Size--
	for _, p := range []*compute.Parcel{changed, short} {
		if _, err := s.Submit(context.Background(), p); !errors.Is(err, compute.ErrNotSent) {
			t.Errorf("%s: %v", p.Job, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(o.Dir, stageDir))
	if err != nil || len(left) > 0 || f.state().Sent != 0 {
		t.Errorf("%d stages are left, %d sent: %v", len(left), f.state().Sent, err)
	}
	first, other := script("same_1", "exit 0"), script("same_1", "exit 0")
	other.Secret = "another"
	submit(t, s, first)
	var no *compute.Refusal
	if _, err := s.Submit(context.Background(), other); !errors.As(err, &no) || !no.Here {
		t.Errorf("another secret: %v", err)
	}
	first.Instance = "another"
	if n := submit(t, s, first); n.Standing != compute.Lost {
		t.Errorf("another memory may have run it: %+v", n)
	}
}

// TestArguments shows what sbatch is given: of the user's words, none.
func TestArguments(t *testing.T) {
	f, o := newFake(t)
	o.Partition, o.Account, o.QOS, o.Extra = "main", "lab", "normal", []string{"--gres=gpu:1"}
	s := open(t, o)
	p := parcel("args_1", map[string]string{"run.sh": "x", "$(touch x) --wrap=id": "x"})
	p.Owner, p.Service, p.Env = "--wrap=id", "--uid=0", map[string]string{"X": "--array=1-1000"}
	p.Limits = compute.Limits{Wall: 61 * time.Second, Memory: 1<<20 + 1, Cores: 1.5}
	submit(t, s, p)
	args := f.state().Jobs[0].Args
	dir := filepath.Join(o.Dir, "args_1.1")
	want := []string{
		"--parsable", "--job-name=stagepost-args_1-1", "--comment=stagepost " + s.instance, "--no-requeue",
		"--export=ALL", "--nodes=1", "--ntasks=1", "--chdir=" + dir, "--input=/dev/null",
		"--output=" + filepath.Join(dir, slurmLog), "--open-mode=append", "--partition=main", "--account=lab",
		"--qos=normal", "--time=2", "--mem=1025K", "--cpus-per-task=2", "--gres=gpu:1", "--",
		filepath.Join(dir, batchFile),
	}
	if strings.Join(args, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q", args)
	}
	text, err := os.ReadFile(filepath.Join(dir, batchFile))
	if err != nil || strings.Contains(string(text), "wrap") || strings.Contains(string(text), "array") {
		t.Errorf("the batch file has words of the user: %v", err)
	}
	room, err := s.Capacity(context.Background())
	if err != nil || room.Slots != 9 || room.Waiting != 1 || room.Free != 6 || room.Kind != "slurm" || !room.Events ||
		!strings.Contains(room.Detail, "1 Priority") {
		t.Errorf("capacity: %+v, %v", room, err)
	}
}
