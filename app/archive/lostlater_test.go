package archive

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/archive/packaging"
	"github.com/stagepost/stagepost/app/archive/settings"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/lifecycle"
)

// losses are what the working directory of a job loses, as patterns below it.
var losses = map[string][]string{
	"everything": {".*", "*"}, "the package": {packageName}, "the content": {workdir.ContentName, "ledger", "people"},
	"a file": {packageName + "/*.tar.gz"}, "nothing": nil,
}

// losing loses files when the n-th attempt at a phase begins.
func losing(t *testing.T, src *fake, base *string, phase lifecycle.State, n int, patterns []string) {
	var mu sync.Mutex
	src.onStep = map[lifecycle.State]func(){phase: func() {
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			lose(t, *base, patterns)
		}
	}}
}

// TestLostInStore: what the working directory loses in Store is taken from a location that has it. If none has, the job
// ends in Failure at once, with the reason, and nothing of it remains in the locations.
func TestLostInStore(t *testing.T) {
	for name, patterns := range losses {
		for attempt, has := range map[int]bool{1: false, 2: true} { // in the first one, far stores nothing
			t.Run(name, func(t *testing.T) {
				b := newBackups(newFake(2, 2))
				var base string
				losing(t, b.fake, &base, Store, attempt, patterns)
				bubble(t, b.fake, flaws["location"].plan(t, b, 1), func(h *harness) {
					base = h.workDir()
					j := h.end(h.submit(Request{}).ID)
					if has || patterns == nil || name == "the content" { // which the package has
						if j.State != Completed {
							t.Fatalf("attempt %d: got %s: %s", attempt, j.State, j.Message)
						}
						if faults := h.stored(&j, h.options.Dir); len(faults) > 0 {
							t.Error(faults)
						}
						return
					}
					h.lostAll(j.State, j.Message, strings.Contains(h.events(j.ID), string(Recover)))
				})
			})
		}
	}
}

// lostAll checks that a job ended in Failure for a lost working directory, at once, and that the locations are empty.
func (h *harness) lostAll(state lifecycle.State, message string, repeated bool) {
	h.t.Helper()
	if state != Failure || repeated || !strings.Contains(message, "the working directory l") ||
		!strings.Contains(message, "archive the course again") {
		h.t.Errorf("got %s (repeated: %t): %s", state, repeated, message)
	}
	for _, location := range []string{"near", "far"} {
		if left := digests(h.t, filepath.Join(h.options.Dir, location)); len(left) > 0 {
			h.t.Errorf("%s has %v", location, left)
		}
	}
}

// TestLostInSigning: a job whose working directory is lost in Signing goes on with the seal that the locations have.
func TestLostInSigning(t *testing.T) {
	for name, patterns := range losses {
		for _, fails := range []int{0, 1} { // attempts of the authority that fail before
			t.Run(name, func(t *testing.T) {
				src := newFake(2, 2)
				var base string
				losing(t, src, &base, Signing, fails+1, patterns)
				bubble(t, src, func(o *Options) { o.Signer = &stamps{fails: fails} }, func(h *harness) {
					base = h.workDir()
					j := h.end(h.submit(Request{}).ID)
					if j.State != Completed {
						t.Fatalf("got %s: %s", j.State, j.Message)
					}
					if faults := h.stored(&j, h.options.Dir); len(faults) > 0 {
						t.Error(faults)
					}
				})
			})
		}
	}
}

// TestLostBeforeVersions: versions of OCFL objects need the content. A job that lost it before they were stored ends in
// Failure, and nothing of it remains in the locations; afterwards it goes on.
func TestLostBeforeVersions(t *testing.T) {
	for _, late := range []bool{false, true} {
		root, err := ocfl.InitRoot(filepath.Join(t.TempDir(), "root"), ocfl.DefaultLayout())
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		src := newFake(1, 2)
		phase := Store
		if late {
			phase = Signing
		}
		var base string
		losing(t, src, &base, phase, 1, losses["the content"])
		roots := map[string]*ocfl.Root{"one": root}
		with := func(o *Options) { o.Objects = func() map[string]*ocfl.Root { return roots } }
		bubble(t, src, with, func(h *harness) {
			base = h.workDir()
			j := h.end(h.submit(Request{Settings: Settings{Package: settings.PackageOCFL}}).ID)
			_, err := root.Object(packaging.ObjectID(source.Facts{Kind: "fake", Name: "fake"}, "1"))
			if late {
				if j.State != Completed || err != nil {
					t.Errorf("got %s: %s, %v", j.State, j.Message, err)
				}
				return
			}
			h.lostAll(j.State, j.Message, strings.Contains(h.events(j.ID), string(Recover)))
		})
	}
}
