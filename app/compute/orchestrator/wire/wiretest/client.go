package wiretest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// ClientOptions of a fake client. The zero value runs run.sh with bash.
type ClientOptions struct {
	// Interval of the runner and the updater. Defaults to 5 ms; the original's is 500 ms.
	Interval time.Duration
	// Run replaces bash: it may write into the directory of the payload and returns the exit code, or Dead for a
	// process that vanishes without one. It must return when ctx ends.
	Run func(ctx context.Context, dir string) int
	// Trust takes any script; otherwise one without the trap and with some of the forbidden words is Invalid.
	Trust bool
}

// Dead is the exit code of a process that left no exit file: its payload is Running indefinitely.
const Dead = -1 << 20

// Submission is what a fake client was sent.
type Submission struct {
	ID     uint32
	Fields []string // of the files, in their order
	Names  []string
	Files  map[string]string // by name
	Header http.Header
	Length int64
}

// FakeClient is a client of the original: the side that runs jobs.
type FakeClient struct {
	URL string

	t    testing.TB
	o    ClientOptions
	data string
	faults
	web  *http.Server
	addr string

	mu       sync.Mutex
	changed  *sync.Cond
	last     uint32
	payloads map[uint32]*payload
	subs     []Submission
	requests []string
	leftover int
	packing  sync.Mutex // held while a ZIP is made: one that is half made is served by a Fault, not by chance
	// none is waited for before the end, as in the original: the zombies keep their ids from being used again
	spawned []*exec.Cmd
	running sync.WaitGroup
	ctx     context.Context
}

type payload struct {
	id     uint32
	status string
	loc    string
	pid    int
	killed bool
}

func (p payload) json(input string) string {
	return fmt.Sprintf(`{"id":%d,"input":{%s},"status":"%s","loc":"%s","pid":%d,"killed":%t}`,
		p.id, input, p.status, p.loc, p.pid, p.killed)
}

const nothing = `{"id":0,"input":{},"status":"Unknown","loc":"","pid":0,"killed":false}`

// Client starts a fake client that ends with the test, and with it everything that its scripts started in their group.
func Client(t testing.TB, o ClientOptions) *FakeClient {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = 5 * time.Millisecond
	}
	c := &FakeClient{t: t, o: o, data: filepath.Join(t.TempDir(), "data"), payloads: map[uint32]*payload{}}
	c.healed = make(chan struct{})
	c.changed = sync.NewCond(&c.mu)
	ctx, stop := context.WithCancel(context.Background())
	c.ctx = ctx
	c.serve(Listener(t))
	c.URL = "http://" + c.addr
	c.running.Go(func() { every(ctx, o.Interval, func() { c.runner(); c.updater() }) })
	t.Cleanup(func() {
		c.Heal()
		c.Down()
		stop()
		c.running.Wait()
		for _, cmd := range c.spawned {
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			cmd.Wait()
		}
	})
	return c
}

func every(ctx context.Context, interval time.Duration, tick func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			tick()
		}
	}
}

func (c *FakeClient) serve(l net.Listener) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, isJSON, `{"message":"pong"}`)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, isJSON, `{"status":"ok","database":"ok"}`)
	})
	mux.HandleFunc("GET /load", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, isJSON, `2.5`) })
	mux.HandleFunc("POST /submit", c.submit)
	mux.HandleFunc("GET /retrieve/{id}", c.retrieve)
	mux.HandleFunc("GET /retrieve_partial/{id}", c.partial)
	mux.HandleFunc("POST /kill/{id}", c.kill)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.strike(w, r, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests = append(c.requests, r.Method+" "+r.URL.Path)
			c.changed.Broadcast()
		}, mux)
	})}
	c.mu.Lock()
	c.web, c.addr = web, l.Addr().String()
	c.mu.Unlock()
	c.running.Go(func() { web.Serve(l) })
}

// Down refuses connections and cuts those that there are; payloads go on. Up ends it, on the same port.
func (c *FakeClient) Down() {
	c.mu.Lock()
	web := c.web
	c.mu.Unlock()
	_ = closeWhole(web)
}

// Up listens again after Down.
func (c *FakeClient) Up() {
	l, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.serve(l)
}

// Break adds a fault; the first that fits a request strikes.
func (c *FakeClient) Break(f Fault) { c.add(f) }

// Heal takes all faults away and cuts the requests that hang.
func (c *FakeClient) Heal() { c.heal() }

// Wipe loses the database: ids begin at 1 again, directories and processes stay.
func (c *FakeClient) Wipe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.payloads, c.last = map[uint32]*payload{}, 0
}

// Leftover has the next ZIP fail with 500 after that many entries. What was written is a proper ZIP, and is served from
// then on as if it were the whole.
func (c *FakeClient) Leftover(entries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leftover = entries
}

// Submissions gives what has been submitted, also if the answer was lost.
func (c *FakeClient) Submissions() []Submission {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.subs)
}

// Requests gives the method and path of every request, in the order in which they came.
func (c *FakeClient) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Await waits until cond holds; it is asked after every request and every change of a payload. It fails the test after
// a minute.
func (c *FakeClient) Await(what string, cond func() bool) {
	c.t.Helper()
	await(c.t, what, &c.mu, c.changed, cond)
}

// patience is how long anything may take that must come: long, since machines are slow and busy.
const patience = time.Minute

// await requires cond to lock for itself.
func await(t testing.TB, what string, mu *sync.Mutex, changed *sync.Cond, cond func() bool) {
	t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		mu.Lock()
		late = true
		changed.Broadcast()
		mu.Unlock()
	})
	defer timer.Stop()
	for !cond() {
		mu.Lock()
		if late {
			mu.Unlock()
			t.Fatalf("waited %s for: %s", patience, what)
		}
		waker := time.AfterFunc(5*time.Millisecond, changed.Broadcast) // for what changes between cond and Wait
		changed.Wait()
		waker.Stop()
		mu.Unlock()
	}
}

// Status returns the status of a payload, or "".
func (c *FakeClient) Status(id uint32) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.payloads[id]; p != nil {
		return p.status
	}
	return ""
}

// Set gives a payload a word, whatever it does.
func (c *FakeClient) Set(id uint32, status string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.payloads[id]; p != nil {
		p.status = status
		c.changed.Broadcast()
	}
}

// runner starts every prepared payload; there is no limit.
func (c *FakeClient) runner() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.payloads {
		if p.status != "Prepared" {
			continue
		}
		p.status = "Running"
		c.changed.Broadcast()
		script, err := os.ReadFile(filepath.Join(p.loc, "run.sh"))
		switch {
		case c.o.Run != nil:
			c.running.Go(func() { c.play(p) })
		case err != nil, !c.o.Trust && unsafe(string(script)):
			p.status = "Invalid"
		default:
			c.spawn(p)
		}
	}
}

func (c *FakeClient) play(p *payload) {
	if code := c.o.Run(c.ctx, p.loc); code != Dead {
		os.WriteFile(filepath.Join(p.loc, ".orchestrator.exit"), []byte(strconv.Itoa(code)+"\n"), 0o644)
	}
}

func (c *FakeClient) spawn(p *payload) {
	cmd := exec.Command("bash", filepath.Join(p.loc, "run.sh"))
	cmd.Dir = p.loc
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		p.status = "Failed"
		return
	}
	p.pid = cmd.Process.Pid
	c.spawned = append(c.spawned, cmd)
}

// unsafe is some of the original's list, enough to distinguish a script with the trap from one without.
func unsafe(script string) bool {
	for _, word := range []string{"trap", ".orchestrator.exit", "EXIT"} {
		if !strings.Contains(script, word) {
			return true
		}
	}
	for _, word := range []string{"curl ", "wget ", "sudo ", "eval ", "docker ", "/etc/passwd", "/proc/"} {
		if strings.Contains(script, word) {
			return true
		}
	}
	return false
}

// updater searches for killed payloads and exit files. A process without one is as if it were running.
func (c *FakeClient) updater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.payloads {
		if p.status != "Running" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.loc, ".orchestrator.exit"))
		code, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 32)
		switch {
		case p.killed:
			p.status = "Killed"
		case err != nil || bad != nil:
			continue
		case code == 0:
			p.status = "Completed"
		default:
			p.status = "Failed"
		}
		c.changed.Broadcast()
	}
}
