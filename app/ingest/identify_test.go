package ingest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
)

// minter is a service that mints: the same ARK for the same key.
type minter struct {
	mu     sync.Mutex // guards all
	next   []string   // answers before the good ones
	status []int
	minted map[string]string
	calls  int
}

func (m *minter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	key := r.Header.Get("Idempotency-Key")
	if m.minted[key] == "" {
		m.minted[key] = "ark:/12345/x" + strconv.Itoa(len(m.minted))
	}
	if len(m.status) > 0 {
		status := m.status[0]
		m.status = m.status[1:]
		if status == 0 {
			panic(http.ErrAbortHandler) // minted, but the answer is lost
		}
		w.WriteHeader(status)
		return
	}
	if len(m.next) > 0 {
		_, _ = io.WriteString(w, m.next[0])
		return
	}
	_, _ = io.WriteString(w, `{"ark": "`+m.minted[key]+`"}`)
}

func newMinter(t *testing.T, m *minter) profile.Profile {
	t.Helper()
	m.minted = map[string]string{}
	s := httptest.NewServer(m)
	t.Cleanup(s.Close)
	p := testProfile()
	p.Minter = profile.Minter{URL: s.URL}
	return p
}

func TestMinterOutside(t *testing.T) {
	m := &minter{status: []int{0, 503}}
	w := start(t, newMinter(t, m))
	a := w.one(Submission{LocalIDs: []string{"l1"}}, "a")
	if a.ARK != "ark:/12345/x0" || len(m.minted) != 1 || m.calls != 3 {
		t.Errorf("got %s after %d calls, %d minted", a.ARK, m.calls, len(m.minted))
	}
	if b := w.one(Submission{LocalIDs: []string{"l1"}}, "b"); b.ARK != a.ARK || b.Version != 2 || m.calls != 3 {
		t.Errorf("got %+v", b)
	}
}

func TestMinterOutsideAndOneLocalIDAtOnce(t *testing.T) {
	m := &minter{}
	w := start(t, newMinter(t, m))
	var batches []string
	for range 4 {
		batches = append(batches, string(w.submit(Submission{LocalIDs: []string{"l1"}}, "a").ID))
	}
	for _, b := range batches {
		if r := w.reported(w.end(jobID(b)).ID); r.State != record.Completed || r.Jobs[0].ARK != "ark:/12345/x0" {
			t.Errorf("got %s", r.Text())
		}
	}
	if len(m.minted) != 1 {
		t.Errorf("got %v", m.minted)
	}
}

func TestMintersThatGiveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		m    *minter
		want string
	}{
		"no ark":  {&minter{next: []string{"doi:10.5072/x"}}, CauseBadIdentifier},
		"nothing": {&minter{next: []string{""}}, CauseBadIdentifier},
		"refused": {&minter{status: []int{403}}, CauseMinter},
		"broken":  {&minter{status: []int{500, 500, 500, 500, 500}}, CauseMinter},
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, newMinter(t, c.m))
			r := w.ingest(Submission{LocalIDs: []string{"l1"}}, "a")
			w.clearly(r, c.want)
			c.m.mu.Lock()
			c.m.next, c.m.status = nil, nil
			c.m.mu.Unlock()
			other := w.one(Submission{LocalIDs: []string{"l1"}}, "b") // the failed job gives the local id up
			if other.ARK == "" {
				t.Errorf("got %+v", other)
			}
		})
	}
}

func TestMintedNamesFollowTheTemplate(t *testing.T) {
	p := testProfile()
	p.Minter = profile.Minter{Template: "ark:/12345/m5.zek"}
	w := start(t, p)
	seen := map[string]bool{}
	for range 5 {
		j := w.one(Submission{}, "same text")
		name := j.ARK[len("ark:/"):]
		set, _ := w.options.Profiles.Get("test")
		if seen[j.ARK] || !set.Minter.NOID().Valid(name) {
			t.Errorf("got %s", j.ARK)
		}
		seen[j.ARK] = true
	}
}
