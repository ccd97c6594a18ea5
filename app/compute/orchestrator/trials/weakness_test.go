//go:build linux

package trials

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/store/mem"
)

// weaknesses are those of the original, each with what is required instead.
var weaknesses = []struct {
	name  string
	trial func(t *testing.T)
}{
	{"W1 polling", promptness}, {"W2 no timeouts", isolation}, {"W4 silent data loss", oddResults},
	{"W5 results contain themselves", noSelfCopy},
	{"W6 ids reused", idsNotReused}, {"W7 no auth", foreigners}, {"W8 no sandbox", confined}, {"W9 blocklist",
		blocklist}, {"W10 zombies", reaped}, {"W11 kill", wholeTree},
	{"W12 terminate", guarded}, {"W13 quota overshoot", quota}, {"W14 no retry", lostAnswer}, {"W15 no limits",
		limited}, {"W16 rejected uploads", nothingStays},
	{"W17 cleaner", agedWhileRunning}, {"W18 table grows", purged}, {"W19 headers logged", noSecretsInLogs},
	{"W20 panics", longNames}, {"W21 output lost", output},
	{"W22 no list", listed}, {"W23 upload restarts", resumed}, {"W24 configuration", configured},
}

// TestWeaknesses goes through them. W3 is alone in the process while it measures.
func TestWeaknesses(t *testing.T) {
	t.Run("W3 whole files in memory", memory)
	for _, w := range weaknesses {
		t.Run(w.name, func(t *testing.T) { t.Parallel(); w.trial(t) })
	}
}

// A job that does nothing is back before the original has checked once, however fast the machine is: with ours nothing
// polls, neither the server nor the agent nor an engine.
func promptness(t *testing.T) {
	const interval = time.Hour
	c := wiretest.Client(t, wiretest.ClientOptions{Interval: interval})
	f := wiretest.Server(t, wiretest.ServerOptions{Interval: interval,
		Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(c.URL)}})
	theirs := user{T: t, url: f.URL}
	waits := theirs.upload(script("true"))
	a := employWith(t, mem.New(), agent.HandlerOptions{}, nil, func(o *engine.Options) { o.Sweep = interval })
	s := open(t, with(dial(t, a.url)), func(s *setting) {
		s.compute.Poll, s.compute.Recheck, s.engine.Sweep = interval, interval, interval
	})
	var took []time.Duration
	for range 7 {
		begun := time.Now()
		s.ends(s.upload("true"), compute.Completed, "")
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("%s (median of %d, on a busy machine)", took[3], len(took))
	if now := theirs.status(waits); now.Status != "Queued" {
		t.Errorf("control: the original does not wait for its turn: %+v", now)
	}
}

// A job that leaves a pipe blocks none, and one that hangs neither (see the matrix).
func isolation(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	pipe := s.upload(script("mkfifo pipe; echo made >made.txt"))
	s.ends(pipe, compute.Completed, "")
	has(t, s.results(pipe), "made.txt")
	s.ends(s.upload("true"), compute.Completed, "")
	t.Run("hung", hangsAtRetrieve)
}

// noise is a file of so many bytes that no packing makes smaller.
type noise struct {
	left   int64
	random *rand.ChaCha8
}

func newNoise(n int64) *noise { return &noise{n, rand.NewChaCha8([32]byte{1})} }

// Read is part of io.Reader.
func (n *noise) Read(p []byte) (int, error) {
	if n.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.left)]
	n.left -= int64(len(p))
	return n.random.Read(p)
}

// peak runs something and gives how much the heap grew meanwhile, at most, in bytes.
func peak(do func()) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, most := int64(m.HeapAlloc), int64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, int64(m.HeapAlloc)-before)
			}
		}
	}()
	do()
	close(done)
	<-stopped
	return most
}

// through sends a file of so many bytes through an upload, a job that copies it, and the download of the results.
func through(u user, size int64) {
	r, w := io.Pipe()
	f := multipart.NewWriter(w)
	go func() {
		part, err := f.CreateFormFile("file", "run.sh")
		if err == nil {
			_, err = io.WriteString(part, script("cp in.bin out.bin"))
		}
		if err == nil {
			part, err = f.CreateFormFile("file", "in.bin")
		}
		if err == nil {
			_, err = io.Copy(part, newNoise(size))
		}
		w.CloseWithError(errors.Join(err, f.WriteField("user_id", "1"), f.WriteField("service", "example"), f.Close()))
	}()
	code, s := u.ask("POST", "/upload", f.FormDataContentType(), r)
	if code != http.StatusCreated {
		u.Fatalf("%d %+v", code, s)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * patience); ; <-tick.C { // until reads the results into memory
		a, err := http.Get(fmt.Sprintf("%s/download/%d", u.url, s.ID))
		if err != nil {
			u.Fatal(err)
		}
		n, err := io.Copy(io.Discard, a.Body)
		a.Body.Close()
		if a.Header.Get("Content-Type") == "application/zip" {
			if err != nil || n < 2*size {
				u.Errorf("results of %d bytes, %v", n, err)
			}
			return
		}
		if time.Now().After(deadline) {
			u.Fatal("it does not end")
		}
	}
}

// 64 MiB go up, through a job and down in little memory. The original's own pairing takes several times the size of
// what it carries.
func memory(t *testing.T) {
	const size = 64 << 20
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	ours := peak(func() { through(s.user, size) })
	c := wiretest.Client(t, wiretest.ClientOptions{})
	u := theirs(t, example(c))
	their := peak(func() { through(u, size/8) })
	t.Logf("heap: ours %d MiB for a file of %d MiB, the original's pairing %d MiB for one of %d MiB", ours>>20, size>>20, their>>20, size/8>>20)
	if ours > size/2 {
		t.Errorf("the heap grew by %d MiB", ours>>20)
	}
	if their < 2*size/8 {
		t.Errorf("control: the original's pairing needs %d MiB only", their>>20)
	}
}

// Whatever a job leaves, its files are there, and nothing outside is.
func oddResults(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), nil)
	id := s.upload(script(five + "\nln -s /etc/passwd out; ln -s out1.txt in; ln -s . loop; mkfifo p; echo x >$'new\\nline'; echo x >'a..b'; mkdir -p d/e; echo deep >d/e/f; chmod 0 out5.txt; truncate -s 5G sparse; rm sparse"))
	s.ends(id, compute.Completed, "")
	files := s.results(id)
	has(t, files, append(fiveNames, "a..b", "d/e/f")...)
	if contains(files["out"], "root:") {
		t.Error("a link led outside")
	}
	left := s.data(id).Results.LeftOut // and what is not there is reported
	want := map[string]int{"link": 1, "fifo": 1}
	for why, n := range left.Reasons { // who runs this may read whatever its mode is
		if why == "unreadable" && n == 1 {
			want[why] = 1
		}
	}
	if !maps.Equal(left.Reasons, want) || left.Skipped != len(want) || left.Renamed != 1 ||
		len(left.Names) != len(want)+1 {
		t.Errorf("what was left out is reported as %+v", left)
	}
	if !contains(files["exit.json"], `"fifo":1`) || !contains(files["exit.json"], `{"name":"out","why":"a link to /etc/passwd, which leads out of the directory"}`) {
		t.Errorf("exit.json has %s", files["exit.json"])
	}
	plain := s.upload(script(five))
	s.ends(plain, compute.Completed, "")
	if left := s.data(plain).Results.LeftOut; left.Skipped+left.Renamed+len(left.Names) > 0 ||
		contains(s.results(plain)["exit.json"], "skipped") {
		t.Errorf("control: a job that left nothing odd is reported as %+v", left)
	}
	t.Run("zip fails once", zipFailsOnce)
}

// The original's results hold themselves.
func noSelfCopy(t *testing.T) {
	c := wiretest.Client(t, wiretest.ClientOptions{})
	their := theirs(t, example(c))
	id := their.upload(script("true"))
	their.until(id, "Completed")
	if has(t, their.results(id), "output.zip"); t.Failed() {
		t.Error("control: there is no self-copy")
	}
	for _, x := range []compute.Executor{original(t, c, nil), dial(t, employ(t, nil).url)} {
		s := open(t, with(x), nil)
		id := s.upload(script("true"))
		s.ends(id, compute.Completed, "")
		if _, there := s.results(id)["output.zip"]; there {
			t.Error("the results hold themselves")
		}
	}
}

// Ids of our agent are no small numbers, come from chance, and are no one's without the ticket's secret.
func idsNotReused(t *testing.T) {
	store := mem.New()
	a := employOn(t, store, agent.HandlerOptions{}, nil)
	f := wiretest.Server(t,
		wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(a.url)}})
	var ids []uint32
	for range 5 {
		id := f.Submit(1, "example", map[string]string{"run.sh": "true"})
		f.Await(id, "Completed")
		_, dest := f.Job(id)
		ids = append(ids, dest)
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i]-ids[i-1] < 2 || ids[0] < 1000 {
			t.Errorf("ids %v can be guessed", ids)
		}
	}
	s := open(t, with(dial(t, a.url)), nil)
	l := newLatch(t)
	id := s.upload(l.wait())
	s.await(id, compute.Running)
	d := s.data(id)
	d.Handle.Secret = "another secret of the same length"
	x := dial(t, a.url)
	if n, err := x.Query(t.Context(), d.Handle); err == nil && n.Standing != compute.Stranger {
		t.Errorf("a stranger sees %+v", n)
	}
	if r, err := x.Partial(t.Context(), d.Handle); err == nil {
		r.Close()
		t.Error("a stranger gets the files")
	}
	if err := x.Kill(t.Context(), d.Handle); err == nil && s.status(id).Status != "Running" {
		t.Error("a stranger ends it")
	}
	l.lift()
	s.ends(id, compute.Completed, "")
	t.Run("wiped", wiped)
}

// With tokens a user sees the own jobs only; without, the public id cannot be guessed.
func foreigners(t *testing.T) {
	s := open(t, with(dial(t, employ(t, nil).url)), func(s *setting) {
		s.wire.Who = func(r *http.Request) (wire.Caller, error) {
			owner, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			if !ok {
				return wire.Caller{}, errors.New("no token")
			}
			return wire.Caller{Owner: owner}, nil
		}
	})
	ann, bob, other := s.user, s.user, s.user
	ann.token, bob.token = "ann", "bob"
	id := ann.uploadTo("example", 7, map[string]string{"run.sh": "echo secret >secret.txt"})
	s.ends(id, compute.Completed, "")
	if owner := s.job(id).Owner; owner != "ann" {
		t.Errorf("it belongs to %q: user_id is not who one is", owner)
	}
	for _, path := range []string{"/download/%d", "/download_partial/%d", "/terminate/%d"} {
		method := "GET"
		if strings.HasPrefix(path, "/term") {
			method = "POST"
		}
		path = fmt.Sprintf(path, id)
		if code, s := bob.ask(method, path, "", nil); code != 404 ||
			s.Message != fmt.Sprintf("Job %d not found in the database", id) {
			t.Errorf("%s: %d %+v", path, code, s)
		}
		if code, _, _ := other.do(method, path, "", nil); code != 401 {
			t.Errorf("%s without a token: %d", path, code)
		}
	}
	has(t, ann.results(id), "secret.txt")
	media, body := form("example", 7, map[string]string{"run.sh": "true"})
	if code, _, _ := other.do("POST", "/upload", media, body); code != 401 {
		t.Errorf("upload without a token: %d", code)
	}
	if public := string(s.job(id).ID); len(public) < 26 {
		t.Errorf("the public id is %q", public)
	}
	locked := employOn(t, mem.New(), agent.HandlerOptions{Token: "a token of the agent's"}, nil)
	for _, path := range []string{"/v1/room", "/retrieve/1", "/load"} {
		if code, _, _ := (user{T: t, url: locked.url}).do("GET", path, "", nil); code != 401 {
			t.Errorf("%s of an agent with a token: %d", path, code)
		}
	}
}

// A job sees neither the files of the machine nor those of the agent and of others, nor the agent's environment.
func confined(t *testing.T) {
	t.Helper()
	b := box(t, sandbox.Auto)
	secret := written(t, "secret", "the agent's secret")
	a := employ(t, func(o *agent.Options) { o.Runner, o.Sandbox = b, b.Tier() })
	s := open(t, with(dial(t, a.url)), nil)
	id := s.upload(script("cat " + secret + " >got.txt; cat /etc/shadow >>got.txt; ls " + filepath.Dir(a.dir) + " >>got.txt; env >env.txt; tr '\\0' '\\n' </proc/$PPID/environ >>env.txt; ls -la >mine.txt; true"))
	s.ends(id, compute.Completed, "")
	files := s.results(id)
	if b.Tier() != sandbox.None && files["got.txt"] != "" {
		t.Errorf("it sees %q", files["got.txt"])
	}
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); !slices.Contains([]string{"PATH", "HOME", "TMPDIR", "LANG", "PWD",
			"SHLVL", "_", "OLDPWD", "TZ"}, name) && strings.Contains("\n"+files["env.txt"], "\n"+name+"=") {
			t.Errorf("it sees %s of the agent's environment", name)
		}
	}
	if !contains(files["env.txt"], "JOB_ID=cmp_") {
		t.Errorf("control: its environment is %q", files["env.txt"])
	}
	c := wiretest.Client(t, wiretest.ClientOptions{Trust: true})
	their := theirs(t, example(c))
	id = their.upload(script("cat " + secret + " >got.txt"))
	their.until(id, "Completed")
	if got := their.results(id)["got.txt"]; got != "the agent's secret" {
		t.Errorf("control: the original's job sees %q", got)
	}
}
