package wiretest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// ServerOptions of a fake server.
type ServerOptions struct {
	// Interval of the sender and the getter. Defaults to 5 ms; the original's is 500 ms.
	Interval time.Duration
	// Services by name, as its environment gives them.
	Services map[string]Service
}

// Service is what SERVICE_<NAME>_... defines.
type Service struct {
	Upload, Download, Terminate string

	RunsPerUser, MaxRuns int // default to 5 and 10
}

// ServiceAt is a service whose client has the usual paths below a base address.
func ServiceAt(base string) Service {
	return Service{Upload: base + "/submit", Download: base + "/retrieve", Terminate: base + "/kill"}
}

// FakeServer is a server of the original: the side that takes jobs from users.
type FakeServer struct {
	URL string

	t    testing.TB
	o    ServerOptions
	data string
	ctx  context.Context

	mu      sync.Mutex
	changed *sync.Cond
	last    uint32
	jobs    map[uint32]*job
	log     []string
}

type job struct {
	id      uint32
	user    int
	service string
	status  string
	loc     string
	dest    uint32
}

// Server starts a fake server that ends with the test.
func Server(t testing.TB, o ServerOptions) *FakeServer {
	t.Helper()
	if o.Interval == 0 {
		o.Interval = 5 * time.Millisecond
	}
	s := &FakeServer{t: t, o: o, data: t.TempDir(), jobs: map[uint32]*job{}}
	s.changed = sync.NewCond(&s.mu)
	ctx, stop := context.WithCancel(context.Background())
	s.ctx = ctx
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, isJSON, `{"message":"pong"}`)
	})
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, isJSON, `{"status":"ok","database":"ok"}`)
	})
	mux.HandleFunc("POST /upload", s.upload)
	mux.HandleFunc("GET /download/{id}", s.download)
	mux.HandleFunc("GET /download_partial/{id}", s.partial)
	mux.HandleFunc("POST /terminate/{id}", s.terminate)
	web := httptest.NewServer(mux)
	s.URL = web.URL
	var loops sync.WaitGroup
	loops.Go(func() { every(ctx, o.Interval, s.sender) })
	loops.Go(func() { every(ctx, o.Interval, s.getter) })
	t.Cleanup(func() {
		stop()
		web.CloseClientConnections()
		web.Close()
		loops.Wait()
	})
	return s
}

// Submit puts a job into the queue as /upload would, with files by name.
func (s *FakeServer) Submit(user int, service string, files map[string]string) uint32 {
	s.t.Helper()
	var parts []part
	for name, data := range files {
		parts = append(parts, part{file: name, isFile: true, data: []byte(data)})
	}
	id, err := s.insert(user, service, parts)
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

func (s *FakeServer) insert(user int, service string, parts []part) (uint32, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	j := &job{id: s.last, user: user, service: service, status: "Queued",
		loc: filepath.Join(s.data, fmt.Sprint(s.last))}
	if _, err := store(j.loc, parts); err != nil {
		return 0, err
	}
	s.jobs[j.id] = j
	s.changed.Broadcast()
	return j.id, nil
}

// Job gives a job's word and the id that its client gave it.
func (s *FakeServer) Job(id uint32) (status string, dest uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.jobs[id]; j != nil {
		return j.status, j.dest
	}
	return "", 0
}

// Output is the path of a job's ZIP; it is there when the job is Completed.
func (s *FakeServer) Output(id uint32) string {
	return filepath.Join(s.data, fmt.Sprint(id), "output.zip")
}

// Words returns every status that a job had, in order.
func (s *FakeServer) Words(id uint32) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for _, line := range s.log {
		var n uint32
		var word string
		if fmt.Sscanf(line, "%d %s", &n, &word); n == id {
			words = append(words, word)
		}
	}
	return slices.Compact(words)
}

// Await waits until a job has one of the words, and gives it. It fails the test after a minute.
func (s *FakeServer) Await(id uint32, words ...string) string {
	s.t.Helper()
	var got string
	await(s.t, fmt.Sprintf("job %d to be one of %v", id, words), &s.mu, s.changed, func() bool {
		got, _ = s.Job(id)
		return slices.Contains(words, got)
	})
	return got
}

func (s *FakeServer) set(id uint32, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[id].status = status
	s.log = append(s.log, fmt.Sprintf("%d %s", id, status))
	s.changed.Broadcast()
}

// due takes the jobs that have a slot: first all of one user's turn, then the next round.
func (s *FakeServer) due() []job {
	s.mu.Lock()
	defer s.mu.Unlock()
	active := func(service string, user int) (n int) {
		for _, j := range s.jobs {
			held := j.status == "Processing" || j.status == "Submitted" || j.status == "Running" // not Prepared
			if held && j.service == service && (user < 0 || j.user == user) {
				n++
			}
		}
		return n
	}
	var taken []job
	for again := true; again; {
		again = false
		turn := map[string]bool{}
		for id := uint32(1); id <= s.last; id++ {
			j := s.jobs[id]
			sv, ok := s.o.Services[j.service]
			who := fmt.Sprint(j.service, " ", j.user)
			if !ok || j.status != "Queued" || turn[who] {
				continue
			}
			if active(j.service, j.user) >= orElse(sv.RunsPerUser, 5) ||
				active(j.service, -1) >= orElse(sv.MaxRuns, 10) {
				continue
			}
			turn[who], again = true, true
			j.status = "Processing"
			taken = append(taken, *j)
		}
	}
	return taken
}

func orElse(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// sender uploads what is due, all at once, and waits for the slowest. Any fault fails the job, without another try.
func (s *FakeServer) sender() {
	var all sync.WaitGroup
	for _, j := range s.due() {
		s.set(j.id, "Processing")
		all.Go(func() {
			dest, err := s.push(s.o.Services[j.service].Upload, j.loc)
			if err != nil {
				s.set(j.id, "Failed")
				return
			}
			s.mu.Lock()
			s.jobs[j.id].dest = dest
			s.mu.Unlock()
			s.set(j.id, "Submitted")
		})
	}
	all.Wait()
}

// getter asks for every job in three words and copies whatever it receives. It polls no others.
func (s *FakeServer) getter() {
	s.mu.Lock()
	var polled []job
	for _, j := range s.jobs {
		if j.status == "Submitted" || j.status == "Prepared" || j.status == "Running" {
			polled = append(polled, *j)
		}
	}
	s.mu.Unlock()
	var all sync.WaitGroup
	for _, j := range polled {
		all.Go(func() {
			word, zip, err := s.fetch(fmt.Sprintf("%s/%d", s.o.Services[j.service].Download, j.dest))
			switch {
			case err != nil: // only logged
			case zip != nil && os.WriteFile(filepath.Join(j.loc, "output.zip"), zip, 0o644) == nil:
				s.set(j.id, "Completed")
			case zip == nil:
				s.set(j.id, word)
			}
		})
	}
	all.Wait()
}
