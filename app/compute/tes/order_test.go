package tes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// adapter opens one that has two images and one root.
func adapter(t *testing.T, change func(*Options)) (a *Adapter, root string) {
	t.Helper()
	root = t.TempDir()
	o := Options{Images: map[string]string{"ubuntu:24.04": "small", "blast": "wide"}, Roots: []string{root}}
	if change != nil {
		change(&o)
	}
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, root
}

func simple() Task { return Task{Executors: []Executor{{Image: "blast", Command: []string{"true"}}}} }

// TestPlan makes an order of a task with everything.
func TestPlan(t *testing.T) {
	a, _ := adapter(t, nil)
	task := simple()
	task.ID, task.State, task.Created = "mine", Complete, "yesterday" // not for clients to set
	task.Name = strings.Repeat("é", 150) + "\n"
	task.Tags = map[string]string{"w": "1", "with,comma": "x", "v": "a,b", "eq=": "x", "": "x"}
	task.Inputs = []Input{{Path: "/a", Content: "text"}}
	task.Resources = &Resources{Cores: 2, RAM: 0.5, Disk: 3, Zones: []string{"z"}, Preemptible: true,
		Parameters: map[string]string{"Wall": "2h", "cpu": "90s", "output": "1MiB", "processes": "7", "files": "9",
			"vm": "x"}}
	p, err := a.Plan(task)
	if err != nil {
		t.Fatal(err)
	}
	want := compute.Limits{Wall: 2 * time.Hour, CPU: 90 * time.Second, Memory: 1 << 29, Disk: 3 << 30, Output: 1 << 20,
		Processes: 7, Cores: 2, Files: 9}
	if diff := cmp.Diff(want, p.Order.Limits); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"w": "1"}, p.Order.Labels); diff != "" {
		t.Error(diff)
	}
	if p.Order.Service != "wide" || p.Order.Name != strings.Repeat("é", 100) || p.Order.Inputs == nil ||
		*p.Order.Inputs {
		t.Errorf("got %+v", p.Order)
	}
	k, ok, err := read(asJob(t, compute.Spec{TES: p.Order.TES}))
	if err != nil || !ok || k.Task.ID != "" || k.Task.State != "" || k.Task.Inputs[0].Content != "" ||
		len(k.Contents[0]) != 64 || k.Task.Tags["v"] != "a,b" || k.Task.Name != task.Name {
		t.Errorf("it keeps %+v, %v", k, err)
	}
	if task.Inputs[0].Content != "text" || task.ID != "mine" {
		t.Error("the caller's task was changed")
	}
}

func asJob(t *testing.T, s compute.Spec) *job.Job {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return &job.Job{Spec: text}
}

// TestRefused has mistakes in tasks. The control is the same task without.
func TestRefused(t *testing.T) {
	a, root := adapter(t, nil)
	if _, err := a.Plan(simple()); err != nil {
		t.Fatal(err)
	}
	input := func(in ...Input) func(*Task) { return func(t *Task) { t.Inputs = in } }
	output := func(o Output) func(*Task) { return func(t *Task) { t.Outputs = []Output{o} } }
	executor := func(change func(*Executor)) func(*Task) { return func(t *Task) { change(&t.Executors[0]) } }
	for want, change := range map[string]func(*Task){
		"at least one":                 func(t *Task) { t.Executors = nil },
		"(known: blast, ubuntu:24.04)": executor(func(e *Executor) { e.Image = "other" }),
		"image is missing":             executor(func(e *Executor) { e.Image = "" }),
		"command is empty":             executor(func(e *Executor) { e.Command = nil }),
		"has a NUL":                    executor(func(e *Executor) { e.Command = []string{"a\x00"} }),
		"no name of a variable":        executor(func(e *Executor) { e.Env = map[string]string{"A B": "x"} }),
		"a task runs in one": func(t *Task) {
			t.Executors = append(t.Executors, Executor{Image: "ubuntu:24.04", Command: []string{"x"}})
		},
		"workdir \"rel\" must be":           executor(func(e *Executor) { e.Workdir = "rel" }),
		"stdin \"/a/../b\" must have no ..": executor(func(e *Executor) { e.Stdin = "/a/../b" }),
		"stdout must not be the root":       executor(func(e *Executor) { e.Stdout = "//" }),
		"path is missing":                   input(Input{Content: "x"}),
		"is a DIRECTORY":                    input(Input{Path: "/a", URL: "file:///x", Type: TypeDirectory}),
		"must be FILE, not":                 input(Input{Path: "/a", Content: "x", Type: "SOCKET"}),
		"neither content nor url":           input(Input{Path: "/a"}),
		"two inputs":                        input(Input{Path: "/a", Content: "x"}, Input{Path: "/a/", Content: "y"}),
		"would lie in it": input(Input{Path: "/a", Content: "x"},
			Input{Path: "/a/b/c", Content: "y"}),
		"inputs come by":                      input(Input{Path: "/a", URL: "s3://b/c"}),
		"none of the directories":             input(Input{Path: "/a", URL: "file:///etc/passwd"}),
		"/x\" lies below none":                input(Input{Path: "/a", URL: "file://" + root + "/../x"}),
		"\"\" lies below none":                input(Input{Path: "/a", URL: "file:"}),
		"inputs[0].url: ":                     input(Input{Path: "/a", URL: "http://example.org:22/x"}),
		"the log of the output has the URL":   output(Output{Path: "/a", URL: "file:///x"}),
		"outputs[0].type":                     output(Output{Path: "/a", Type: "X"}),
		"does not begin with its path_prefix": output(Output{Path: "/a/*", PathPrefix: "/b"}),
		"is no pattern":                       output(Output{Path: "/b/[", PathPrefix: "/b"}),
		"volumes[0] \"v\"":                    func(t *Task) { t.Volumes = []string{"v"} },
		"cpu_cores":                           func(t *Task) { t.Resources = &Resources{Cores: -1} },
		"ram_gb":                              func(t *Task) { t.Resources = &Resources{RAM: 1e300} },
		"there is no such parameter": func(t *Task) {
			t.Resources = &Resources{Parameters: map[string]string{"vm": "x"}, Strict: true}
		},
		"backend_parameters.wall": func(t *Task) {
			t.Resources = &Resources{Parameters: map[string]string{"wall": "soon"}}
		},
		"is negative": func(t *Task) {
			t.Resources = &Resources{Parameters: map[string]string{"files": "-1"}}
		},
		"beside the contents": func(t *Task) { t.Description = strings.Repeat("x", mostTask) },
	} {
		task := simple()
		change(&task)
		if _, err := a.Plan(task); job.KindOf(err) != job.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	wild, _ := adapter(t, func(o *Options) { o.Images = map[string]string{AnyImage: "small"} })
	other := simple()
	other.Executors[0].Image = "other"
	if p, err := wild.Plan(other); err != nil || p.Order.Service != "small" {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestParseImages(t *testing.T) {
	got, err := ParseImages(" a:1=s1, b@sha256:ff=s2,*=s3,")
	if diff := cmp.Diff(map[string]string{"a:1": "s1", "b@sha256:ff": "s2", "*": "s3"}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, wrong := range []string{"a", "=s", "a=", "a=s,a=t"} {
		if _, err := ParseImages(wrong); err == nil {
			t.Errorf("%q was taken", wrong)
		}
	}
}

// TestStates goes through every state and cause; what a list of a state asks the store for has all its jobs.
func TestStates(t *testing.T) {
	want := map[lifecycle.State]State{
		compute.Queued: Queued, compute.Processing: Initializing, compute.Submitted: Initializing,
		compute.Prepared: Initializing, compute.Running: Running, compute.Retrieving: Running,
		compute.Unknown: Unknown, compute.Killing: Canceling, compute.Completed: Complete, compute.Invalid: SystemError,
		compute.Killed: Canceled, compute.Failed: SystemError, compute.Cleaned: Unknown,
	}
	for _, stage := range compute.JobLife.Stages() {
		if got, there := want[stage.State]; !there || StateOf(stage.State, "") != got {
			t.Errorf("%s is %s, want %s", stage.State, StateOf(stage.State, ""), got)
		}
	}
	failed := map[string]State{
		compute.CauseExit: ExecutorError, compute.CauseSignal: ExecutorError, compute.CauseMemory: ExecutorError,
		compute.CauseTimeout: ExecutorError, compute.CauseCPU: ExecutorError,
		compute.CauseDisk: ExecutorError, compute.CauseRejected: SystemError, compute.CauseAgent: SystemError,
		compute.CauseLost: SystemError, compute.CauseNode: SystemError,
		compute.CausePreempt: Preempted, compute.CauseAgents: SystemError, compute.CauseResults: SystemError,
		"something new": SystemError,
	}
	for cause, want := range failed {
		if got := StateOf(compute.Failed, cause); got != want {
			t.Errorf("%s is %s, want %s", cause, got, want)
		}
	}
	if got := StateOf(compute.Killed, compute.CauseTimeout); got != ExecutorError {
		t.Errorf("got %s", got)
	}
	for _, stage := range compute.JobLife.Stages() {
		for cause := range failed {
			if s := stage.State; s != compute.Cleaned && !has(Where(StateOf(s, cause)), s) {
				t.Errorf("a list of %s lacks %s", StateOf(s, cause), s)
			}
		}
	}
	history := []job.Event{{To: compute.Queued}, {From: compute.Running, To: compute.Failed, Cause: compute.CauseExit,
		Note: "3"}, {From: compute.Failed, To: compute.Cleaned}}
	if s, cause, sentence := Last(history); s != compute.Failed || cause != compute.CauseExit || sentence != "3" {
		t.Errorf("got %s %s %s", s, cause, sentence)
	}
}

func has(all []lifecycle.State, s lifecycle.State) bool {
	for _, one := range all {
		if one == s {
			return true
		}
	}
	return false
}

// filled brings the inputs of a task to an upload, fetches the others, and gives what went wrong, and what the files
// hold.
func filled(t *testing.T, a *Adapter, inputs ...Input) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	app, err := compute.New(compute.Options{Dir: dir, Services: []compute.Service{{Name: "wide"}}, Source: a})
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(mem.New(), app.Works(), engine.Options{Deliver: app.Deliver()})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	t.Cleanup(func() { _ = app.Close() }) // nothing of it is read any more
	u, err := app.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Discard()
	task := simple()
	task.Inputs = inputs
	p, err := a.Plan(task)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Fill(u, p); err != nil {
		return nil, err
	}
	p.Order.Owner = "ann"
	j, err := u.Commit(t.Context(), p.Order)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i := range inputs {
		if got[inputs[i].Path], err = content(app, &j, inputOf(i)); err != nil {
			t.Fatal(err)
		}
	}
	to, err := os.OpenRoot(t.TempDir())
	if err = errors.Join(err, to.Mkdir("in", 0o700), to.Mkdir("scratch", 0o700)); err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	for _, f := range p.Order.Fetch {
		least := int64(0)
		arrival := compute.Arrival{Root: to, Name: "in/" + f.Name, Scratch: "scratch",
			Progress: func(have, size int64) error {
				if least = max(least, have); size >= 0 && size < have {
					t.Errorf("%d bytes of %d", have, size)
				}
				return nil
			}}
		if err := a.Fetch(t.Context(), f, arrival); err != nil {
			return nil, err
		}
		text, err := to.ReadFile(arrival.Name)
		if err != nil || int64(len(text)) != least {
			t.Errorf("%d bytes of %d were reported: %v", least, len(text), err)
		}
		number, _ := strconv.Atoi(strings.TrimPrefix(f.Name, inputName))
		got[inputs[number].Path] = string(text)
	}
	if left, err := fs.ReadDir(to.FS(), "scratch"); err != nil || len(left) != 0 {
		t.Errorf("left in the scratch directory: %v, %v", left, err)
	}
	return got, nil
}

// TestInputs takes inputs from everywhere, and refuses what lies beyond the roots. The controls are the files beside
// them.
func TestInputs(t *testing.T) {
	a, root := adapter(t, func(o *Options) {
		o.Fetch = fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Retries: -1,
			OwnAddresses: func() ([]netip.Addr, error) { return nil, nil }}
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/there" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("from the web")) // the client sees it
	}))
	defer web.Close()
	for name, text := range map[string]string{"plain": "from the disk", "a b%c": "odd"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"inside": "plain", "outside": secret} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(root, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := filled(t, a, Input{Path: "/1", Content: "given", URL: "s3://ignored"},
		Input{Path: "/2", URL: "file://" + root + "/plain"}, Input{Path: "/3", URL: root + "/inside"},
		Input{Path: "/4", URL: web.URL + "/there"}, Input{Path: "/5", URL: "file://" + root + "/a%20b%25c"})
	want := map[string]string{"/1": "given", "/2": "from the disk", "/3": "from the disk", "/4": "from the web",
		"/5": "odd"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	for _, url := range []string{"file://" + root + "/outside", "file://" + root + "/none",
		"file://" + root + "/fifo"} {
		if got, err := filled(t, a, Input{Path: "/x", URL: url}); job.KindOf(err) != job.Invalid {
			t.Errorf("%s: got %v, %v", url, got, err)
		}
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for url, temporary := range map[string]bool{web.URL + "/gone": false, closed.URL: true} {
		var e *fetch.Error
		if _, err := filled(t, a, Input{Path: "/x", URL: url}); !errors.As(err, &e) || e.Temporary() != temporary {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// TestProgressStopsFetch: an error of a follower of a fetch ends it, from the web and from the disk.
func TestProgressStopsFetch(t *testing.T) {
	a, root := adapter(t, func(o *Options) {
		o.Fetch = fetch.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			OwnAddresses: func() ([]netip.Addr, error) { return nil, nil }}
	})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 1<<20))
	}))
	defer web.Close()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	for _, url := range []string{web.URL, file} {
		for _, refused := range []error{full, nil} {
			to, err := os.OpenRoot(t.TempDir())
			if err = errors.Join(err, to.Mkdir("scratch", 0o700)); err != nil {
				t.Fatal(err)
			}
			arrival := compute.Arrival{Root: to, Name: "x", Scratch: "scratch",
				Progress: func(int64, int64) error { return refused }}
			err = a.Fetch(t.Context(), compute.RemoteFile{Name: "x", URL: url}, arrival)
			_, there := to.Stat("x")
			if !errors.Is(err, refused) || (there == nil) != (refused == nil) {
				t.Errorf("%s: want %v, got %v, and the file: %v", url, refused, err, there)
			}
			to.Close()
		}
	}
}

// TestPrivateAddress refuses servers of this machine and its network by the policy that the server has. The control is
// TestInputs, where one is allowed.
func TestPrivateAddress(t *testing.T) {
	a, _ := adapter(t, func(o *Options) {
		o.Fetch.Lookup = nil
		o.Fetch.Retries = -1
	})
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	for _, url := range []string{web.URL, strings.Replace(web.URL, "127.0.0.1", "localhost", 1),
		"http://169.254.169.254/latest", "http://[::1]/"} {
		task := simple()
		task.Inputs = []Input{{Path: "/x", URL: url}}
		p, err := a.Plan(task)
		if err == nil {
			_, err = filled(t, a, p.inputs...)
		}
		var e *fetch.Error
		if job.KindOf(err) != job.Invalid && (!errors.As(err, &e) || e.Kind != fetch.Refused) {
			t.Errorf("%s: got %v", url, err)
		}
	}
}
