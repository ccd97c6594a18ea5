package archive

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/lifecycle"
)

// Calls to a source that makes backups.
const (
	prepareCall = "prepare"
	startCall   = "start"
	stateCall   = "state"
	fetchCall   = "fetch"
	ofCourse    = "fetch " // of the course's backup
)

// backups is a source that makes backups. Its first calls of a kind fail, in as many attempts of the job as are
// planned.
type backups struct {
	*fake
	polls  int                     // times that a backup is not done yet
	fails  map[string]func() error // by call, or call and activity; nil: it succeeds
	lost   bool                    // the first start arrives, and its answer does not
	bmu    sync.Mutex              // guards the rest
	made   map[string]int          // by id: how often it was started
	asked  map[string]int          // by id: how often its state was
	calls  map[string]int          // by call and activity
	starts int                     // calls of StartBackup
}

func newBackups(f *fake) *backups {
	return &backups{fake: f, made: map[string]int{}, asked: map[string]int{}, calls: map[string]int{},
		fails: map[string]func() error{}}
}

func (b *backups) Source(string) (source.Source, error) { return b, nil }

func (b *backups) CanBackup(context.Context) (string, error) { return "", nil }

// call counts a call and gives its failure.
func (b *backups) call(name string, r *source.BackupRequest) error {
	b.bmu.Lock()
	defer b.bmu.Unlock()
	b.calls[name+" "+r.Activity]++
	for _, at := range []string{name, name + " " + r.Activity} {
		if f := b.fails[at]; f != nil {
			return f()
		}
	}
	return nil
}

func (b *backups) PrepareBackup(_ context.Context, course, activity string) (*source.BackupRequest, error) {
	r := &source.BackupRequest{Course: course, Activity: activity, Asked: time.Now()}
	err := b.call(prepareCall, r)
	r.ID = fmt.Sprintf("%s-%d", activity, b.calls[prepareCall+" "+activity])
	return r, err
}

func (b *backups) StartBackup(ctx context.Context, r *source.BackupRequest, save func() error) error {
	b.bmu.Lock()
	b.starts++
	b.bmu.Unlock()
	state, err := b.BackupState(ctx, r)
	if err != nil || state != source.BackupNew {
		return err
	}
	r.Posted = time.Now()
	if err := save(); err != nil {
		return err
	}
	if err := b.call(startCall, r); err != nil {
		return err
	}
	b.bmu.Lock()
	defer b.bmu.Unlock()
	b.made[r.ID]++
	if b.lost {
		b.lost = false
		return errBusy
	}
	return nil
}

func (b *backups) BackupState(_ context.Context, r *source.BackupRequest) (source.BackupState, error) {
	if err := b.call(stateCall, r); err != nil {
		return "", err
	}
	b.bmu.Lock()
	defer b.bmu.Unlock()
	switch {
	case b.made[r.ID] == 0:
		return source.BackupNew, nil
	case b.asked[r.ID] < b.polls:
		b.asked[r.ID]++
		return source.BackupRunning, nil
	}
	return source.BackupDone, nil
}

// DeleteBackup deletes nothing: TestDeleteBackups has the deletions.
func (b *backups) DeleteBackup(context.Context, *source.BackupRequest, *os.Root) error { return nil }

var _ source.Backups = (*backups)(nil)

func (b *backups) FetchBackup(
	ctx context.Context, r *source.BackupRequest, scratch *os.Root, out source.Out,
) (*source.Backup, error) {
	if err := scratch.WriteFile("part-"+r.ID, []byte("part"), 0o600); err != nil {
		return nil, err
	}
	if err := b.call(fetchCall, r); err != nil {
		return nil, err
	}
	name := "backups/" + r.ID + ".mbz"
	err := out.Put(ctx, name, &source.Origin{}, func(w io.Writer) error {
		_, err := io.WriteString(w, "backup "+r.ID)
		return err
	})
	return &source.Backup{Name: name}, err
}

// attempts fails in the first attempts of a job at something. Attempts are 20 s apart.
func attempts(fails int, failure error) func() error {
	var last time.Time
	n := 0
	return func() error {
		if now := time.Now(); last.IsZero() || now.Sub(last) > 20*time.Second {
			n, last = n+1, now
		}
		if n <= fails {
			return failure
		}
		return nil
	}
}

// gone fails once, with the error that a backup will never be there.
func gone() func() error {
	once := false
	return func() error {
		if once {
			return nil
		}
		once = true
		return &source.Error{Op: "backup", Err: source.ErrBackupGone, Transient: true}
	}
}

// TestBackups: backups of the course and of activities are started once each while activities are archived, awaited
// and stored, also if an answer is lost or an activity fails meanwhile. One that the source dropped is requested anew.
func TestBackups(t *testing.T) {
	const once = " error recover retry"
	for _, c := range []struct {
		name    string
		plan    func(*backups)
		want    string
		started map[string]int
	}{
		{"control", func(*backups) {}, walk, map[string]int{"-1": 1, "1-1": 1, "2-1": 1}},
		{"slow", func(b *backups) { b.polls = 5 },
			"create enqueue begin next next wait next next next next finish",
			map[string]int{"-1": 1, "1-1": 1, "2-1": 1}},
		{"lost answer", func(b *backups) { b.lost = true },
			"create enqueue begin next" + once + " next next next next next finish",
			map[string]int{"-1": 1, "1-1": 1, "2-1": 1}},
		{"activity fails", func(b *backups) {
			fails := attempts(2, errBusy)
			b.onFetch = func(string, string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				if delete(b.failures, "2/item-0"); fails() != nil {
					b.failures["2/item-0"] = errBusy
				}
			}
		}, "create enqueue begin next" + once + once + " next next next next next finish",
			map[string]int{"-1": 1, "1-1": 1, "2-1": 1}},
		{"dropped before it is done", func(b *backups) { b.fails[ofCourse] = gone() },
			"create enqueue begin next next" + once + " wait next next next next finish",
			map[string]int{"-1": 1, "1-1": 1, "2-1": 1, "-2": 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBackups(newFake(2, 1))
			c.plan(b)
			bubble(t, b.fake, func(o *Options) { o.Sources, o.Tasks = b, 1 }, func(h *harness) {
				yes := true
				j := h.end(h.submit(Request{Settings: Settings{
					CourseBackup: &yes, ActivityBackups: &yes, Pack: settings.PackNone,
				}}).ID)
				if got := h.events(j.ID); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if fmt.Sprint(b.made) != fmt.Sprint(c.started) {
					t.Errorf("started %v, want %v", b.made, c.started)
				}
				if c.name == "activity fails" && b.starts != 3 { // the next attempts leave accepted backups alone
					t.Errorf("%d calls to start backups", b.starts)
				}
				h.backedUp(string(j.ID), c.started["-2"] == 1)
			})
		})
	}
}

// backedUp checks that the archive has the backups.
func (h *harness) backedUp(id string, second bool) {
	h.t.Helper()
	all, err := h.options.Catalog.Artifacts(h.t.Context(), id, "", 100)
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, a := range all {
		if strings.HasSuffix(a.Path, ".mbz") {
			names = append(names, path.Base(a.Path))
		}
	}
	want := []string{"-1.mbz", "1-1.mbz", "2-1.mbz"}
	if second {
		want[0] = "-2.mbz"
	}
	if slices.Sort(names); !slices.Equal(names, want) {
		h.t.Errorf("the archive has the backups %q, want %q", names, want)
	}
}

// TestBackupNeverDone: a backup that the source does not finish lets the job wait in BackupCollection until its
// deadline; it ends in Timeout, and its tasks are cancelled. Its deletion in the source is tried a few times.
func TestBackupNeverDone(t *testing.T) {
	b := newBackups(newFake(1, 1))
	b.polls = 1 << 30
	bubble(t, b.fake, func(o *Options) { o.Sources = b }, func(h *harness) {
		yes := true
		j := h.end(h.submit(Request{Settings: Settings{CourseBackup: &yes, Deadline: "30m"}}).ID)
		deletions := strings.Repeat("wait ", maxDeletions-1)
		want := "create enqueue begin next next wait timeout " + deletions + "next timeout"
		if got := h.events(j.ID); got != want || j.State != Timeout {
			t.Errorf("got %s: %s", j.State, got)
		}
		if n := b.calls[stateCall+" "]; n < 25 || n > 60 { // 5 s, 10 s, 20 s, 40 s, then each minute
			t.Errorf("asked %d times", n)
		}
		tasks, err := h.store.Tasks(h.t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		states := map[lifecycle.State]int{}
		for _, one := range tasks {
			states[one.State]++
		}
		if states[Cancelled] != 1 || states[Finished] != 2 {
			t.Errorf("tasks: %v", states)
		}
		h.gone(h.options.Dir, string(j.ID))
	})
}

// TestNoBackups: a job that needs backups of a source that makes none is refused in PreProcessing.
func TestNoBackups(t *testing.T) {
	yes := true
	for _, s := range []Settings{{CourseBackup: &yes}, {ActivityBackups: &yes}} {
		bubble(t, newFake(1, 1), nil, func(h *harness) {
			j := h.end(h.submit(Request{Settings: s}).ID)
			if got := h.events(j.ID); got != "create enqueue begin fail next fail" || j.State != Failure {
				t.Errorf("got %s: %s; %s", j.State, got, j.Message)
			}
		})
	}
}

// TestBackupHoldsNoSlot: on an engine with one slot, a job completes while another one waits for a backup that takes an
// hour in its source.
func TestBackupHoldsNoSlot(t *testing.T) {
	b := newBackups(newFake(1, 1))
	b.polls, b.slots = 60, 1
	bubble(t, b.fake, func(o *Options) { o.Sources = b }, func(h *harness) {
		yes, no := true, false
		long := h.submit(Request{Settings: Settings{CourseBackup: &yes}})
		short := h.end(h.submit(Request{Settings: Settings{CourseBackup: &no}}).ID)
		waits, err := h.store.Get(h.t.Context(), long.ID)
		if short.State != Completed || err != nil || waits.State != BackupCollection {
			h.t.Errorf("the short job is %s: %s, the long one %s, %v", short.State, short.Message, waits.State, err)
		}
		if j := h.end(long.ID); j.State != Completed {
			h.t.Errorf("the long job is %s: %s", j.State, j.Message)
		}
	})
}
