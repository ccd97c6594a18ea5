package history

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/timestamp"
	"github.com/stagepost/stagepost/format/rfc3161"
	"github.com/stagepost/stagepost/format/rfc3161/authority"
	"github.com/stagepost/stagepost/internal/ziptest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// entry is a history entry with its number.
type entry struct {
	job.Event
	number int64
}

// histories is a store of histories.
type histories struct {
	jobs   []job.ID
	past   map[job.ID][]entry
	last   int64
	series string
	log    []job.Audit
}

func (h *histories) Entries(context.Context) (int64, string, error) { return h.last, h.series, nil }

func (h *histories) Newest(
	_ context.Context, after, through int64, yield func(id job.ID, seq int64, hash job.Hash) error,
) error {
	for _, id := range h.jobs {
		all := h.past[id]
		if slices.ContainsFunc(all, func(e entry) bool { return after < e.number && e.number <= through }) {
			e := all[len(all)-1]
			if err := yield(id, e.Seq, e.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *histories) Histories(
	_ context.Context, yield func(j *job.Job, entries []job.Event, numbers []int64, damage error) error,
) error {
	for _, id := range h.jobs {
		j, events, numbers := job.Job{ID: id}, []job.Event{}, []int64{}
		for _, e := range h.past[id] {
			events, numbers = append(events, e.Event), append(numbers, e.number)
			j.Seq, j.Head = e.Seq, e.Hash
		}
		if err := yield(&j, events, numbers, nil); err != nil {
			return err
		}
	}
	return nil
}

func (h *histories) Audit(_ context.Context, seq int64, n int) ([]job.Audit, error) {
	if n < 0 {
		return h.log[max(0, len(h.log)+n):], nil
	}
	return h.log[min(int(seq), len(h.log)):min(int(seq)+n, len(h.log))], nil
}

// grow adds an entry to a history.
func (h *histories) grow(id job.ID, event string, at time.Time) {
	all := h.past[id]
	if all == nil {
		h.jobs = append(h.jobs, id)
	}
	prev := job.Hash{}
	if len(all) > 0 {
		prev = all[len(all)-1].Hash
	}
	h.last++
	e := entry{job.Event{Job: id, Seq: int64(len(all) + 1), Event: lifecycle.Event(event), To: "Waiting",
		By: lifecycle.Worker, Actor: "w1", At: at.Truncate(time.Microsecond)}, h.last}
	e.Seal(prev)
	h.past[id] = append(all, e)
}

// enter adds an entry to the audit log.
func (h *histories) enter(event string, id job.ID, at time.Time) {
	a := job.Audit{Seq: int64(len(h.log) + 1), At: at.Truncate(time.Microsecond), By: lifecycle.Operator, Actor: "ann",
		Event: lifecycle.Event(event), Job: id, Note: "why"}
	prev := job.Hash{}
	if len(h.log) > 0 {
		prev = h.log[len(h.log)-1].Hash
	}
	a.Seal(prev)
	h.log = append(h.log, a)
}

// purge removes a job.
func (h *histories) purge(id job.ID) {
	delete(h.past, id)
	h.jobs = slices.DeleteFunc(h.jobs, func(x job.ID) bool { return x == id })
}

// fixture has histories, an authority, and a directory of anchors.
type fixture struct {
	t       *testing.T
	dir     string
	root    string // file of its root certificate
	from    *histories
	now     time.Time
	trusted *rfc3161.Verifier
	by      *timestamp.Authority
	tsa     *authority.Authority
	down    atomic.Bool
	asked   atomic.Int32
	keep    time.Duration
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	a, err := authority.New("office", time.Now())
	must(t, err)
	f := &fixture{t: t, dir: filepath.Join(t.TempDir(), "anchors"), now: time.Now(), tsa: a, trusted: a.Verifier(),
		from: &histories{past: map[job.ID][]entry{}, series: "one"}}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		if f.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		a.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	f.root = filepath.Join(t.TempDir(), "root.pem")
	must(t, os.WriteFile(f.root, a.RootPEM(), 0o600))
	f.by, err = timestamp.NewAuthority(timestamp.Settings{Name: "office", URL: web.URL, Roots: []string{f.root}})
	must(t, err)
	return f
}

func (f *fixture) anchors() *Anchors {
	return New(Options{Dir: f.dir, Source: f.from, Installation: "here", Keep: f.keep,
		Authorities: func() []*timestamp.Authority { return []*timestamp.Authority{f.by} },
		Now:         func() time.Time { return f.now }})
}

// days makes three anchors: two jobs before the first, one that grows and a third one before the second, none after.
func (f *fixture) days() {
	f.t.Helper()
	f.now = f.now.Add(-72 * time.Hour)
	f.from.grow("tst_1", "create", f.now)
	f.from.grow("tst_2", "create", f.now)
	f.from.grow("tst_1", "begin", f.now)
	f.from.grow("tst_1", "retry", f.now)
	f.from.enter("hold", "tst_1", f.now)
	f.from.enter("release", "tst_1", f.now)
	must(f.t, f.anchors().Round(f.t.Context()))
	f.now = f.now.Add(24 * time.Hour)
	f.from.grow("tst_3", "create", f.now)
	f.from.grow("tst_1", "fail", f.now)
	f.from.grow("tst_1", "end", f.now)
	f.from.grow("tst_3", "end", f.now)
	f.from.enter("cancel", "tst_3", f.now)
	must(f.t, f.anchors().Round(f.t.Context()))
	f.now = f.now.Add(24 * time.Hour)
	must(f.t, f.anchors().Round(f.t.Context()))
	f.from.grow("tst_4", "create", f.now)
	f.now = f.now.Add(24 * time.Hour)
}

// files exports, and gives the files of the export.
func (f *fixture) files() map[string]string {
	f.t.Helper()
	var out bytes.Buffer
	_, err := Export(f.t.Context(), &out, f.dir, "here", f.from, f.now)
	must(f.t, err)
	return ziptest.Files(f.t, out.Bytes())
}

func packed(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		w, err := z.Create(name)
		must(t, err)
		_, err = io.WriteString(w, text)
		must(t, err)
	}
	must(t, z.Close())
	return out.Bytes()
}

// verify verifies files as an export.
func (f *fixture) verify(files map[string]string) Report {
	f.t.Helper()
	text := packed(f.t, files)
	r, err := Verify(f.t.Context(), bytes.NewReader(text), int64(len(text)), f.trusted, f.now)
	must(f.t, err)
	return r
}

// faults lists the faults of a report as text.
func faults(r *Report) string {
	var all []string
	for _, x := range r.Faults {
		all = append(all, fmt.Sprintf("%s %d: %s", x.Object, x.Entry, x.What))
	}
	return strings.Join(all, "\n")
}
