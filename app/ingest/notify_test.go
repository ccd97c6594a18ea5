package ingest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/report"
	"github.com/stagepost/stagepost/edge/webhook"
)

// told is a callback receiver: it answers with the statuses in turn, the last one again and again. 0 hangs up.
type told struct {
	mu       sync.Mutex // guards all
	statuses []int
	keys     []string
	news     []News
	badSign  int
}

func (c *told) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.mu.Lock()
	defer c.mu.Unlock()
	h := r.Header
	if id, err := webhook.Verify(h, body, time.Now(), webhook.RawSecret("s3cret")); err != nil || id != h.Get("Idempotency-Key") {
		c.badSign++
	}
	var n News
	_ = json.Unmarshal(body, &n)
	c.keys, c.news = append(c.keys, h.Get("Idempotency-Key")), append(c.news, n)
	status := c.statuses[0]
	if len(c.statuses) > 1 {
		c.statuses = c.statuses[1:]
	}
	switch {
	case status == 0:
		panic(http.ErrAbortHandler)
	case status/100 == 3:
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(status)
	_, _ = w.Write(make([]byte, 1000))
}

func TestCallback(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		required bool
		calls    int
		warning  bool
		failed   bool
	}{
		"taken":                {[]int{200}, true, 1, false, false},
		"taken after trouble":  {[]int{500, 0, 429, 204}, true, 4, false, false},
		"refused":              {[]int{404}, false, 1, true, false},
		"refused and required": {[]int{410}, true, 1, false, true},
		"redirected":           {[]int{302}, false, 1, true, false},
		"never":                {[]int{503}, false, 5, true, false},
		"never, required":      {[]int{0}, true, 5, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &told{statuses: c.statuses}
			s := httptest.NewServer(in)
			t.Cleanup(s.Close)
			p := testProfile()
			p.Callback = &profile.Callback{URL: s.URL + "/told", Secret: "s3cret", Required: c.required}
			w := start(t, p)
			r := w.ingest(Submission{Filename: "f.txt", LocalIDs: []string{"l1"}}, "text")
			j := r.Jobs[0]
			if (r.State == Failed) != c.failed || strings.Contains(j.Message, "WARNING") != c.warning {
				t.Errorf("got %s", r.Text())
			}
			in.mu.Lock()
			defer in.mu.Unlock()
			if len(in.keys) != c.calls || in.badSign > 0 {
				t.Errorf("got %d calls, %d wrongly signed; want %d", len(in.keys), in.badSign, c.calls)
			}
			for _, key := range in.keys {
				if key != in.keys[0] || !strings.HasPrefix(key, string(j.Job)) {
					t.Errorf("idempotency keys: got %v", in.keys)
				}
			}
			if n := in.news[0]; n.ARK != j.ARK || n.ARK == "" || n.Version != 1 || n.LocalIDs[0] != "l1" {
				t.Errorf("got %+v", n)
			}
			if len(w.object(j.ARK).Versions) != 1 {
				t.Error("the object is stored whatever the callback says")
			}
			if c.failed {
				w.tellAgain(in, j)
			}
			w.valid()
		})
	}
}

// tellAgain retries a job whose callback is required, with a receiver that has come to its senses.
func (w *world) tellAgain(in *told, j report.Job) {
	w.t.Helper()
	if j.FailedIn != Notify || j.Cause != CauseCallback {
		w.t.Errorf("got %+v", j)
	}
	in.statuses = []int{200}
	in.mu.Unlock()
	defer in.mu.Lock()
	if err := w.do(j.Job, Retry); err != nil {
		w.t.Fatal(err)
	}
	if got := w.end(j.Job); got.State != Completed {
		w.t.Errorf("got %s: %s", got.State, got.Message)
	}
}
