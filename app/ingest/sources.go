package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// causeSource is the code of the wait for a share of the slots in which files are fetched.
const causeSource = "source"

// mostHosts is how many hosts of one object count.
const mostHosts = 16

// silentFor is how long a host counts as silent after a request to it ended without an answer.
const silentFor = 10 * time.Minute

// sources shares the slots in which files are fetched among hosts and owners: one of them may use three quarters of the
// slots, and a host that did not answer an eighth, so that a silent server leaves slots to others.
type sources struct {
	app  *App
	most func(slots int, silent bool) int // slots for one host or owner

	mu     sync.Mutex           // guards the rest
	busy   map[string]int       // shares in use or kept, by host and by owner
	silent map[string]time.Time // by host: when it last did not answer
	line   sourceLine
	kept   map[job.ID]keptShare // shares of jobs that were in the line and are due now
}

// keptShare is a share that a job of the line has before it is claimed, so that no later job takes it meanwhile.
type keptShare struct {
	keys  []string
	until time.Time // the job did not come, for example because it is held
}

// Waits of jobs in the line. Each job is due when it gets a share; the times are for a line that another server had.
const (
	firstsWait = 5                // pauses of the application, which the first ones wait
	longestTry = 10 * time.Minute // and the longest
)

func newSources(a *App) *sources {
	return &sources{app: a, most: share, busy: map[string]int{}, silent: map[string]time.Time{},
		line: newSourceLine(), kept: map[job.ID]keptShare{}}
}

// share returns how many slots one host or owner may use.
func share(slots int, silent bool) int {
	if silent {
		return max(1, slots/8)
	}
	return max(1, slots-slots/4)
}

// fetching runs a step that asks the servers of its files, once it has a share of the slots.
func (a *App) fetching(do func(*task, context.Context) error) func(*task, context.Context) error {
	return func(t *task, ctx context.Context) error {
		j := t.Job()
		keys, err := t.sources()
		if err != nil {
			return err
		}
		if b := a.sources.enter(&j, keys); b != nil {
			return engine.Wait(*b)
		}
		err = do(t, ctx)
		a.sources.leave(ctx, keys, err)
		return err
	}
}

// fewWanted is the number of files of an object up to which sources keeps them for the step.
const fewWanted = 1000

// sources names the owner of the object and the hosts of its files. The order is that of the manifest, which the step
// does not read again if it has few files.
func (t *task) sources() ([]string, error) {
	var files []wanted
	var keys []string
	if owner := t.Job().Owner; owner != "" {
		keys = append(keys, "owner "+owner)
	}
	for w, err := range t.wanted() {
		if err != nil {
			return nil, err
		}
		if len(files) <= fewWanted {
			files = append(files, w)
		}
		u, err := url.Parse(w.url)
		if err != nil || u.Host == "" {
			continue // the step refuses it
		}
		if key := "host " + strings.ToLower(u.Host); !slices.Contains(keys, key) {
			if keys = append(keys, key); len(keys) > mostHosts {
				return keys, nil
			}
		}
	}
	if len(files) <= fewWanted {
		t.few = files
	}
	return keys, nil
}

// enter takes a share for a job, or returns which jobs use it. A job that waits already keeps its position.
func (s *sources) enter(j *job.Job, keys []string) *job.Blocker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.kept[j.ID]; ok {
		delete(s.kept, j.ID)
		s.free(k.keys)
	}
	key, full := s.full(keys)
	if !full {
		s.use(keys)
		s.line.leave(j.ID)
		return nil
	}
	before := s.line.wait(j.ID, keys, key)
	wait := min(s.app.pause()*time.Duration(firstsWait+before/10), max(longestTry, s.app.pause()))
	return &job.Blocker{
		Code: causeSource, Sentence: fmt.Sprintf("%d jobs fetch files of the %s: that is its share of the slots",
			s.busy[key], key),
		Until: s.app.engine.Clock().Now().Add(wait), Holder: key,
	}
}

// use takes a share of each key.
func (s *sources) use(keys []string) {
	for _, key := range keys {
		s.busy[key]++
	}
}

// free returns a share of each key.
func (s *sources) free(keys []string) {
	for _, key := range keys {
		if s.busy[key]--; s.busy[key] <= 0 {
			delete(s.busy, key)
		}
	}
}

// full returns the first key whose share is used up.
func (s *sources) full(keys []string) (key string, full bool) {
	for _, key := range keys {
		if s.isFull(key) {
			return key, true
		}
	}
	return "", false
}

func (s *sources) isFull(key string) bool {
	last, silent := s.silent[key]
	silent = silent && s.app.engine.Clock().Now().Sub(last) < silentFor
	return s.busy[key] >= s.most(s.app.engine.Status().Pool(record.JobKind).Slots, silent)
}

// leave returns a share, and makes the jobs of the line due that can have one now.
func (s *sources) leave(ctx context.Context, keys []string, failed error) {
	for _, next := range s.next(keys, failed) {
		_ = s.app.engine.Nudge(context.WithoutCancel(ctx), next, causeSource) // a hint: it also tries by itself
	}
}

// next returns a share, and the jobs that shares are kept for now. Kept shares of jobs that did not come are free too.
func (s *sources) next(keys []string, failed error) (due []job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noteAnswers(keys, failed)
	s.free(keys)
	due = s.keep(keys)
	now := s.app.engine.Clock().Now()
	for id, k := range s.kept {
		if now.After(k.until) {
			delete(s.kept, id)
			s.free(k.keys)
			due = append(due, s.keep(k.keys)...)
		}
	}
	return due
}

// keep gives shares of keys that are free to the jobs that wait for them.
func (s *sources) keep(keys []string) (due []job.ID) {
	until := s.app.engine.Clock().Now().Add(firstsWait * s.app.pause())
	for _, key := range keys {
		for q, ok := s.line.first(key); ok && !s.isFull(key); q, ok = s.line.first(key) {
			if other, full := s.full(q.keys); full {
				s.line.wait(q.id, q.keys, other)
				continue
			}
			s.line.leave(q.id)
			s.use(q.keys)
			s.kept[q.id] = keptShare{q.keys, until}
			due = append(due, q.id)
		}
	}
	return due
}

// noteAnswers notes which of the hosts did not answer, and forgets those that count as silent no longer.
func (s *sources) noteAnswers(keys []string, failed error) {
	var e *fetch.Error
	silent := ""
	if errors.As(failed, &e) && e.Kind == fetch.Network && !errors.Is(failed, context.Canceled) {
		if u, err := url.Parse(e.URL); err == nil {
			silent = "host " + strings.ToLower(u.Host)
		}
	}
	for _, key := range keys {
		if key == silent {
			now := s.app.engine.Clock().Now()
			maps.DeleteFunc(s.silent, func(_ string, last time.Time) bool { return now.Sub(last) >= silentFor })
			s.silent[key] = now
		} else if failed == nil {
			delete(s.silent, key)
		}
	}
}

// The ways of bytes that Options.Moved is called with.
const (
	Fetched  = "fetched"   // from a source to the working disk; what an earlier attempt had kept is not counted again
	Stored   = "stored"    // into a storage location; files that were there already are not counted
	ReadBack = "read-back" // from a storage location, to be sure of it
)

// moved counts n bytes that went a way.
func (a *App) moved(way string, n int64) {
	if a.options.Moved != nil && n > 0 {
		a.options.Moved(way, n)
	}
}

// StorageLocations lists the directories of all storage locations in profiles, each once. A location without content
// may not exist.
func (a *App) StorageLocations() []string {
	var dirs []string
	for _, id := range a.options.Profiles.IDs() {
		if p, ok := a.options.Profiles.Get(id); ok {
			for _, dir := range p.Storage {
				dirs = append(dirs, filepath.Clean(a.locations.Path(dir)))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}
