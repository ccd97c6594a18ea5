package computehttp_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
)

// lossy is a line that breaks in the middle of uploads, and loses the answer to an order.
type lossy struct {
	http.RoundTripper
	cuts    int           // uploads that break
	lost    int           // answers to orders that do not arrive
	ended   chan struct{} // has an element for each PATCH that the server has ended
	patches int
	sent    int64 // bytes of uploads

	mu sync.Mutex // guards sent
}

var errLine = errors.New("the line broke")

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch {
		l.patches++
		left := int64(1 << 40)
		if l.cuts > 0 {
			l.cuts--
			left = 5 << 20
		}
		r.Body = &measured{r.Body, l, left}
	}
	answer, err := l.RoundTripper.RoundTrip(r)
	if r.Method == http.MethodPatch { // a later one would be refused while the server still stores this one
		select {
		case <-l.ended:
		case <-time.After(time.Minute):
			err = errors.Join(err, errors.New("the server does not end a PATCH"))
		}
	}
	if err == nil && l.lost > 0 && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/jobs") {
		l.lost--
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		return nil, errLine
	}
	return answer, err
}

type measured struct {
	io.ReadCloser
	line *lossy
	left int64
}

func (m *measured) Read(b []byte) (int, error) {
	if m.left <= 0 {
		return 0, errLine
	}
	n, err := m.ReadCloser.Read(b[:min(int64(len(b)), m.left)])
	m.left -= int64(n)
	m.line.mu.Lock()
	m.line.sent += int64(n)
	m.line.mu.Unlock()
	return n, err
}

// TestComputeSubmitResumes sends a large file and a small one over a line that breaks: the upload goes on where it was,
// and one job is made.
func TestComputeSubmitResumes(t *testing.T) {
	c := openCompute(t, nil)
	line := &lossy{RoundTripper: http.DefaultTransport, cuts: 2, lost: 1, ended: make(chan struct{}, 100)}
	inner := c.Web.Config.Handler
	c.Web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner.ServeHTTP(w, r)
		if r.Method == http.MethodPatch {
			line.ended <- struct{}{}
		}
	})
	lame, err := client.New(c.Web.URL, client.Options{HTTP: &http.Client{Transport: line}})
	if err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 20<<20/16)
	const script = "cat large | wc -c"
	var last, total int64
	j, err := lame.SubmitCompute(t.Context(), client.ComputeOrder{Service: "wide"}, []client.ComputeSource{
		{Name: "large", Size: int64(len(large)), Content: bytes.NewReader(large)}, {Name: "run.sh",
			Size: int64(len(script)), Content: strings.NewReader(script)},
	}, func(done, all int64) { last, total = done, all })
	if err != nil {
		t.Fatal(err)
	}
	if p := c.runs(j.ID); p.inputs["large"] != string(large) || p.inputs["run.sh"] != script {
		t.Errorf("the agent got %d bytes and %q", len(p.inputs["large"]), p.inputs["run.sh"])
	}
	if line.patches != 3 || line.cuts != 0 || line.lost != 0 {
		t.Errorf("the control: %+v", line)
	}
	if most := int64(len(large)) + 8<<20; line.sent > most {
		t.Errorf("%d bytes were sent for %d: it began anew", line.sent, len(large))
	}
	if last != total || total != int64(len(large)+len(script)) {
		t.Errorf("it reported %d of %d", last, total)
	}
	if page, err := c.Client.ComputeJobs(t.Context(), client.ComputeQuery{}); err != nil || len(page.Jobs) != 1 {
		t.Errorf("%d jobs were made, %v", len(page.Jobs), err)
	}
	if n, _, _ := c.tus.Used(""); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// TestComputeSubmitWithoutUploads: a server that takes no resumable uploads gets large files with the order.
func TestComputeSubmitWithoutUploads(t *testing.T) {
	c := openWith(t, false, nil)
	large := bytes.Repeat([]byte("x"), 17<<20)
	j, err := c.Client.SubmitCompute(t.Context(), client.ComputeOrder{Service: "wide",
		Command: &client.ComputeCommand{Shell: "true"}},
		[]client.ComputeSource{{Name: "large", Size: int64(len(large)), Content: bytes.NewReader(large)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := c.runs(j.ID); len(p.inputs["large"]) != len(large) {
		t.Errorf("the agent got %d bytes", len(p.inputs["large"]))
	}
}
