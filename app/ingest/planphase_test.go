package ingest

import (
	"database/sql"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// workshop is a harness in which every phase of one object can be broken and mended: the depositor's server, the disk,
// the minter, the storage location, the inventory and the callback. It counts what each of them is asked for.
type workshop struct {
	*harness
	site     *site
	disk     *volume
	minter   *minter
	receiver *callbackReceiver
	stored   atomic.Int64 // bytes
}

func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	k := &workshop{minter: &minter{}, disk: &volume{}, receiver: &callbackReceiver{statuses: []int{200}}}
	k.site = newSite(t, map[string]string{"a.txt": "alpha", "b.txt": "beta"})
	k.site.put("o.checkm", k.site.manifest("a.txt", "b.txt"))
	p := newMinter(t, k.minter)
	receiver := httptest.NewServer(k.receiver)
	t.Cleanup(receiver.Close)
	p.Callback = &profile.Callback{URL: receiver.URL + "/told", SecretFile: secretFile(t, "s3cret"), Required: true}
	o := options(t, t.TempDir(), p)
	k.room(1 << 40)
	o.Disk, o.Reserve = k.disk.space, 1
	o.Moved = func(way string, n int64) {
		if way == Stored {
			k.stored.Add(n)
		}
	}
	k.harness, _ = startPlan(t, mem.New(), o)
	return k
}

func (k *workshop) room(n int64) {
	k.disk.free.Store(n)
	k.disk.total.Store(n)
}

// sql changes the inventory behind the application's back.
func (k *workshop) sql(text string) {
	k.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(k.dir, "inventory.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		k.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(k.t.Context(), text); err != nil {
		k.t.Fatal(err)
	}
}

func (k *workshop) storage() string { return filepath.Join(k.dir, "storage") }

func (k *workshop) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// flaw breaks one phase and mends it. What the failed attempt asks for in vain is counted in manifests, fetches of
// b.txt, mints and calls.
type flaw struct {
	spoil, mend                   func(*workshop)
	cause                         string
	manifests, fetches, mints, in int
}

var flaws = map[lifecycle.State]flaw{
	record.Pending: {
		spoil: func(k *workshop) {
			k.site.answer("o.checkm",
				k.site.gone)
		}, mend: func(k *workshop) { k.site.answer("o.checkm", nil) },
		cause: CauseNotFound, manifests: 1,
	},
	record.Estimating: {
		spoil: func(k *workshop) {
			k.site.answer("b.txt",
				k.site.gone)
		}, mend: func(k *workshop) { k.site.answer("b.txt", nil) },
		cause: CauseNotFound,
	},
	record.Provisioning: {
		spoil: func(k *workshop) { k.room(10) }, mend: func(k *workshop) { k.room(1 << 40) }, cause: CauseTooLarge,
	},
	record.Downloading: {
		spoil: func(k *workshop) { k.site.put("b.txt", "bets") }, mend: func(k *workshop) {
			k.site.put("b.txt",
				"beta")
		},
		cause: CauseBadDigest, fetches: 1,
	},
	record.Processing: {
		spoil: func(k *workshop) { k.minter.answers("doi:10.5072/x") }, mend: func(k *workshop) { k.minter.answers() },
		cause: CauseBadIdentifier, mints: 1,
	},
	record.Storing: {
		spoil: func(k *workshop) { k.must(os.WriteFile(k.storage(), []byte("no directory"), 0o600)) },
		mend:  func(k *workshop) { k.must(os.Remove(k.storage())) }, cause: CauseStorage,
	},
	record.Recording: {
		spoil: func(k *workshop) {
			k.sql("CREATE TRIGGER spoilt BEFORE INSERT ON versions BEGIN SELECT RAISE(ABORT, 'the inventory " +
				"refuses'); END")
		},
		mend: func(k *workshop) { k.sql("DROP TRIGGER spoilt") }, cause: "error",
	},
	record.Notify: {
		spoil: func(k *workshop) { k.receiver.answers(410) }, mend: func(k *workshop) { k.receiver.answers(200) },
		cause: CauseCallback, in: 1,
	},
}

// gone answers that there is nothing.
func (s *site) gone(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// answers sets what a minter answers instead of an identifier; empty: identifiers again.
func (m *minter) answers(text ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = text
}

func (c *callbackReceiver) answers(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses = []int{status}
}

// TestPlanRetryOfEachPhase fails each phase of an object once. The failure releases all locks; the retry re-enters
// exactly that phase; no phase that had succeeded is done again: files are fetched, identifiers minted, versions stored
// and callbacks called as often as in an ingest without trouble, but for what the failed attempt itself asked for.
func TestPlanRetryOfEachPhase(t *testing.T) {
	phases := []lifecycle.State{record.Pending, record.Estimating, record.Provisioning, record.Downloading,
		record.Processing, record.Storing, record.Recording, record.Notify, record.Completed}
	for i, phase := range phases[:len(phases)-1] {
		t.Run(string(phase), func(t *testing.T) {
			k, f := openWorkshop(t), flaws[phase]
			f.spoil(k)
			b := k.submit(Submission{}, manifest("mrt-batch-manifest", k.site.row("o.checkm", "l1", "T")))
			id := k.children(b.ID, 1)[0].ID
			j := k.end(id)
			if j.State != record.Failed || j.Origin != phase || j.Cause != f.cause {
				t.Fatalf("it is %s, failed in %q by %q: %s", j.State, j.Origin, j.Cause, j.Message)
			}
			k.end(b.ID)
			k.free(&j)
			f.mend(k)
			if err := k.do(id, record.Retry); err != nil {
				t.Fatal(err)
			}
			if j = k.end(id); j.State != record.Completed || j.Retries != 1 {
				t.Fatalf("after the retry it is %s: %s", j.State, j.Message)
			}
			if diff := cmp.Diff(phases[i:], k.path(id)); diff != "" {
				t.Errorf("the way after the retry (-want +got):\n%s", diff)
			}
			k.counted(&f)
			if err := k.do(b.ID, record.Update); err != nil {
				t.Fatal(err)
			}
			if b = k.end(b.ID); b.State != record.Completed {
				t.Errorf("the batch is %s: %s", b.State, b.Message)
			}
			k.verify(id)
			k.verify(b.ID)
			k.valid()
		})
	}
}

// TestPlanWithoutTrouble is the control: the counts of an ingest that nothing disturbs.
func TestPlanWithoutTrouble(t *testing.T) {
	k := openWorkshop(t)
	if b := k.end(k.submit(Submission{},
		manifest("mrt-batch-manifest", k.site.row("o.checkm", "l1", "T"))).ID); b.State != record.Completed {
		t.Fatalf("it is %s: %s", b.State, b.Message)
	}
	k.counted(&flaw{})
}

// path gives the states that a job came to since its retry.
func (k *workshop) path(id job.ID) []lifecycle.State {
	k.t.Helper()
	history, err := k.store.History(k.t.Context(), id, 0, 0)
	if err != nil {
		k.t.Fatal(err)
	}
	at := slices.IndexFunc(history, func(e job.Event) bool { return e.Event == record.Retry })
	if at < 0 {
		k.t.Fatal("the history has no retry")
	}
	var states []lifecycle.State
	for _, e := range history[at:] {
		if e.From != e.To {
			states = append(states, e.To)
		}
	}
	return states
}

// free checks that a failed job keeps nothing: no claim, no lock on an object or identifier, no lock on its directory.
func (k *workshop) free(j *job.Job) {
	k.t.Helper()
	if j.Claimed() {
		k.t.Errorf("%s has it", j.Worker)
	}
	deadline := time.Now().Add(time.Minute)
	for { // a moment after the commit that ends the job
		locks, err := k.inventory.Locks(k.t.Context())
		if err == nil && len(locks) == 0 {
			break
		}
		if err != nil || time.Now().After(deadline) {
			k.t.Errorf("locks are left: %v, %v", locks, err)
			break
		}
		runtime.Gosched()
	}
	dir, err := k.tree.Open(j.Parent, j.ID, j.Epoch+1)
	if err != nil {
		k.t.Errorf("its directory: %v", err)
		return
	}
	k.must(dir.Close())
}

// counted compares what was asked for with an ingest without trouble and the vain attempt.
func (k *workshop) counted(f *flaw) {
	k.t.Helper()
	k.site.mu.Lock()
	defer k.site.mu.Unlock()
	k.minter.mu.Lock()
	defer k.minter.mu.Unlock()
	want := map[string]int{"o.checkm": 1 + f.manifests, "a.txt": 1, "b.txt": 1 + f.fetches, "mints": 1 +
		f.mints, "calls": 1 + f.in}
	got := map[string]int{"mints": k.minter.calls, "calls": len(k.receiver.calls(record.Completed))}
	for name, n := range k.site.gets {
		got[name] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if objects, versions, _, err := k.inventory.Counts(k.t.Context()); err != nil || objects != 1 || versions != 1 {
		k.t.Errorf("%d objects and %d versions, %v", objects, versions, err)
	}
	own := int64(0)
	for _, text := range k.files(k.minter.minted[slices.Sorted(maps.Keys(k.minter.minted))[0]], "v1") {
		own += int64(len(text))
	}
	if got := k.stored.Load(); got != own {
		k.t.Errorf("%d bytes were stored, the object has %d: stored twice?", got, own)
	}
}
