package client

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/agent"
	"github.com/stagepost/stagepost/app/compute/orchestrator/wire/wiretest"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/internal/ziptest"
)

// original is what a server of job-orchestrator reads of a payload.
type original struct {
	ID     uint32          `json:"id"`
	Input  json.RawMessage `json:"input"`
	Status string          `json:"status"`
	Loc    string          `json:"loc"`
	PID    *int            `json:"pid"`
	Killed *bool           `json:"killed"`
}

// ask sends a request as such a server does and gives the answer, its body read.
func ask(t *testing.T, method, url, media string, body io.Reader) (*http.Response, []byte) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	if media != "" {
		q.Header.Set("Content-Type", media)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a, text
}

// send submits files and reads the payload; the six keys must be there.
func send(t *testing.T, url string, files map[string]string) original {
	t.Helper()
	var form bytes.Buffer
	parts := multipart.NewWriter(&form)
	for name, text := range files {
		part, err := parts.CreateFormFile(name, name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(part, text)
	}
	_ = parts.Close()
	a, text := ask(t, http.MethodPost, url+"/submit", parts.FormDataContentType(), &form)
	if a.StatusCode != http.StatusOK {
		t.Fatalf("got %d %s", a.StatusCode, text)
	}
	return payloadOf(t, text)
}

func payloadOf(t *testing.T, text []byte) (p original) {
	t.Helper()
	if err := json.Unmarshal(text, &p); err != nil || p.Status == "" || string(p.Input) != "{}" || p.PID == nil ||
		p.Killed == nil {
		t.Fatalf("got %s, %v", text, err)
	}
	return p
}

// The cases submit, retrieve and kill that every client of job-orchestrator must pass.
func TestOriginalServer(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	s := w.serve("")
	p := send(t, s.URL, map[string]string{"run.sh": "echo hello", "test.txt": "partial data"})
	if p.ID == 0 || p.ID > 1<<31-1 || p.Status != "Prepared" && p.Status != "Running" {
		t.Errorf("got %+v", p)
	}
	w.until(s.URL, p.ID)
	a, text := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve/%d", s.URL, p.ID), "", nil)
	got := ziptest.Files(t, text)
	modes := map[string]string{}
	z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range z.File {
		modes[f.Name] = f.Mode().String()
	}
	// Inputs are as the original stores them; made.txt, the control, is as the script made it.
	if modes["run.sh"] != "-rwxr-xr-x" || modes["test.txt"] != "-rwxr-xr-x" || modes["made.txt"] != "-rw-r--r--" {
		t.Errorf("the modes are %v", modes)
	}
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/zip" || got["test.txt"] != "partial data" ||
		got["made.txt"] != "made" || got["run.sh"] == "" {
		t.Errorf("got %d %v %v", a.StatusCode, a.Header, got)
	}
	for _, path := range []string{"GET /retrieve/9999", "GET /retrieve_partial/9999", "POST /kill/9999"} {
		method, path, _ := strings.Cut(path, " ")
		if a, text := ask(t, method, s.URL+path, "", nil); a.StatusCode != http.StatusNotFound ||
			payloadOf(t, text).ID != 0 {
			t.Errorf("%s: got %d %s", path, a.StatusCode, text)
		}
	}
	if a, text := ask(t, http.MethodPost, fmt.Sprintf("%s/kill/%d", s.URL, p.ID), "", nil); a.StatusCode != 200 ||
		len(text) != 0 {
		t.Errorf("kill of one that ended: got %d %s", a.StatusCode, text)
	}
	if a, _ := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve/%d", s.URL, p.ID), "",
		nil); a.Header.Get("Content-Type") != "application/zip" {
		t.Error("one that is killed after its end keeps its results")
	}
	if a, text := ask(t, http.MethodGet, s.URL+"/load", "", nil); a.StatusCode != 200 ||
		json.Unmarshal(text, new(float64)) != nil {
		t.Errorf("load: got %d %s", a.StatusCode, text)
	}
	if a, text := ask(t, http.MethodGet, s.URL+"/health", "", nil); a.StatusCode != 200 ||
		!bytes.Contains(text, []byte(`"status":"ok","database":"ok"`)) {
		t.Errorf("health: got %d %s", a.StatusCode, text)
	}
	if err := os.RemoveAll(p.Loc); err != nil {
		t.Fatal(err)
	}
	if a, text := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve_partial/%d", s.URL, p.ID), "",
		nil); a.StatusCode != 500 || payloadOf(t, text).ID != 0 {
		t.Errorf("partial of a missing directory: got %d %s", a.StatusCode, text)
	}
}

// Failed, Invalid and Killed are reported in JSON with words that a server polls for, and partial results are there in
// every state.
func TestOriginalStates(t *testing.T) {
	begun := make(chan *sandbox.Command, 8)
	w := newHarness(t, blocks(begun), func(o *agent.Options) { o.Slots = 1 })
	s := w.serve("")
	state := func(n uint32) original {
		a, text := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve/%d", s.URL, n), "", nil)
		if a.StatusCode != 200 {
			t.Errorf("got %d", a.StatusCode)
		}
		return payloadOf(t, text)
	}
	partial := func(n uint32) map[string]string {
		a, text := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve_partial/%d", s.URL, n), "", nil)
		if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/zip" {
			t.Errorf("got %d %v", a.StatusCode, a.Header)
		}
		return ziptest.Files(t, text)
	}
	runs := send(t, s.URL, map[string]string{"run.sh": "sleep"}).ID
	<-begun
	waits := send(t, s.URL, map[string]string{"run.sh": "sleep", "test.txt": "partial data"}).ID
	invalid := send(t, s.URL, map[string]string{"other.sh": "x"}).ID
	if got := state(runs).Status; got != "Running" {
		t.Errorf("got %s", got)
	}
	if got := state(waits).Status; got != "Prepared" {
		t.Errorf("got %s", got)
	}
	if got := partial(waits); got["test.txt"] != "partial data" {
		t.Errorf("got %v", got)
	}
	if got := partial(runs); got["stdout"] != "begun\n" {
		t.Errorf("got %v", got)
	}
	for _, n := range []uint32{waits, runs} {
		if a, text := ask(t, http.MethodPost, fmt.Sprintf("%s/kill/%d", s.URL, n), "", nil); a.StatusCode != 200 ||
			len(text) != 0 {
			t.Errorf("got %d %s", a.StatusCode, text)
		}
		w.until(s.URL, n)
		if p := state(n); p.Status != "Killed" || !*p.Killed {
			t.Errorf("got %+v", p)
		}
	}
	w.until(s.URL, invalid)
	if got := state(invalid).Status; got != "Invalid" {
		t.Errorf("got %s", got)
	}
	if got := partial(runs); got["stdout"] != "begun\n" {
		t.Errorf("a payload that was killed keeps what it made: %v", got)
	}
	w.app.Drain()
	if a, _ := ask(t, http.MethodPost, s.URL+"/submit", "multipart/form-data; boundary=x",
		strings.NewReader("--x--\r\n")); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("drained: got %d", a.StatusCode)
	}
}

// Small ids outlive a restart, are never given twice, and lead to no one else's payload.
func TestOriginalIDs(t *testing.T) {
	w := newHarness(t, writes(3), nil)
	s := w.serve("")
	seen := map[uint32]bool{}
	for range 20 {
		p := send(t, s.URL, map[string]string{"run.sh": "x"})
		if seen[p.ID] {
			t.Fatalf("%d was given twice", p.ID)
		}
		seen[p.ID] = true
		w.until(s.URL, p.ID)
	}
	w.stop()
	w.start(nil)
	s = w.serve("")
	for n := range seen {
		a, text := ask(t, http.MethodGet, fmt.Sprintf("%s/retrieve/%d", s.URL, n), "", nil)
		if p := payloadOf(t, text); a.StatusCode != 200 || p.Status != "Failed" || p.ID != n {
			t.Errorf("got %d %+v", a.StatusCode, p)
		}
	}
	j, err := w.client.get(t.Context(), 0)
	if err == nil {
		t.Errorf("nothing has the id 0: %v", j.ID)
	}
	for n := range seen {
		j, err := w.client.get(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []compute.Handle{
			{Ticket: compute.Ticket{Job: j.ID, Attempt: 1, Secret: strings.Repeat("1", 32)}},
			{Ticket: compute.Ticket{Job: j.ID, Attempt: 1, Secret: strings.Repeat("0", 64)}}} {
			if notice, err := w.app.Query(t.Context(), x); err != nil || notice.Standing != compute.Stranger {
				t.Errorf("a payload without a ticket answers to one: %+v, %v", notice, err)
			}
		}
		break
	}
}

// A server of job-orchestrator drives the agent: jobs go through with the words that it polls for, and their ZIPs
// arrive.
func TestFakeOriginalServer(t *testing.T) {
	w := newHarness(t, func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		exit := 0
		if script, err := os.ReadFile(c.Dir + "/run.sh"); err != nil || bytes.Contains(script, []byte("exit 3")) {
			exit = 3
		}
		return sandbox.Ending{Exit: exit}, nil
	}, nil)
	s := w.serve("")
	server := wiretest.Server(t,
		wiretest.ServerOptions{Services: map[string]wiretest.Service{"example": wiretest.ServiceAt(s.URL)}})
	good, bad := server.Submit(1, "example", map[string]string{"run.sh": "echo"}), server.Submit(1, "example",
		map[string]string{"run.sh": "exit 3"})
	invalid := server.Submit(2, "example", map[string]string{"other": "x"})
	server.Await(good, "Completed")
	server.Await(bad, "Failed")
	server.Await(invalid, "Invalid")
	text, err := os.ReadFile(server.Output(good))
	if err != nil {
		t.Fatal(err)
	}
	if got := ziptest.Files(t, text); got["run.sh"] != "echo" || got["exit.json"] == "" {
		t.Errorf("got %v", got)
	}
	for _, id := range []uint32{good, bad, invalid} {
		for _, word := range server.Words(id) {
			if word == "Unknown" || word == "Locked" {
				t.Errorf("%d received %s: %v", id, word, server.Words(id))
			}
		}
	}
}

// form is a submission with the boundary x.
const form = "--x\r\nContent-Disposition: form-data; name=\"f\"; filename=\"run.sh\"\r\n\r\necho\r\n--x--\r\n"

// Who does not bring the token is let in nowhere; a page in a browser cannot hand over a payload, and a program can.
func TestStrangers(t *testing.T) {
	w := newHarness(t, writes(0), nil)
	s := w.serve("a token of the agent")
	for _, path := range []string{"GET /load", "POST /submit", "POST /kill/1"} {
		method, path, _ := strings.Cut(path, " ")
		if a, _ := ask(t, method, s.URL+path, "multipart/form-data; boundary=x",
			nil); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %d", path, a.StatusCode)
		}
	}
	open := w.serve("")
	for name, c := range map[string]struct {
		host, origin, site string
		want               int
	}{
		"another origin": {"", "http://evil.example", "cross-site", http.StatusForbidden},
		"another name":   {"evil.example", "http://evil.example", "same-origin", http.StatusMisdirectedRequest},
		"control":        {"", "", "", http.StatusOK},
	} {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, open.URL+"/submit", strings.NewReader(form))
		if err != nil {
			t.Fatal(err)
		}
		q.Host = c.host
		q.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		if c.origin != "" {
			q.Header.Set("Origin", c.origin)
			q.Header.Set("Sec-Fetch-Site", c.site)
		}
		a, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		if err != nil || a.StatusCode != c.want ||
			c.want != http.StatusOK && !bytes.Contains(text, []byte(`"status":"Unknown"`)) {
			t.Errorf("%s: got %d %s, %v", name, a.StatusCode, text, err)
		}
	}
}

// A full disk is answered with 503: the server asks again. A payload that could be of several services is refused.
func TestRefusals(t *testing.T) {
	disk := &fills{}
	w := newHarness(t, writes(0), func(o *agent.Options) { o.Disk, o.Reserve = disk.free, 1<<20 })
	s := w.serve("")
	submit := func(url string) int {
		a, _ := ask(t, http.MethodPost, url+"/submit", "multipart/form-data; boundary=x", strings.NewReader(form))
		return a.StatusCode
	}
	if got := submit(s.URL); got != http.StatusServiceUnavailable {
		t.Errorf("got %d", got)
	}
	disk.room.Store(1 << 40)
	if got := submit(s.URL); got != http.StatusOK {
		t.Errorf("control: got %d", got)
	}
	two := newHarness(t, writes(0), func(o *agent.Options) { o.Services = map[string]agent.Service{"a": {}, "b": {}} })
	if got := submit(two.serve("").URL); got != http.StatusBadRequest {
		t.Errorf("of neither service: got %d", got)
	}
}
