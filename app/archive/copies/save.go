package copies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/edge/storage"
)

// Request is what [Store.Save] stores: all artifacts of a job that the catalog lists.
type Request struct {
	Job    string
	Policy Policy
	Open   func(path string) (Source, error) // gives an artifact
	Retain time.Time                         // the copies are not deleted before; zero: kept indefinitely
	// Progress is called concurrently with the bytes that are done: a byte of a copy counts half when it is read from
	// the source, and whole when the copy is verified. Nil: it is not called.
	Progress func(done, total int64)
}

// Report is what Save achieved.
type Report struct {
	Artifacts int
	Copies    int       // verified, of all artifacts
	Bytes     int64     // of these copies
	Behind    []Missing // locations that lack copies although the policy is kept: CatchUp stores them later
}

// maxFailures is the number of failures after each other from which a location counts as not reachable.
const maxFailures = 3

// Save stores the artifacts of a job in the locations of the policy, in all locations at once, and reads each copy
// back. It continues what an earlier call began. A location that fails does not keep the others from getting their
// copies. The error is an [*Error] if the policy is not kept.
func (s *Store) Save(ctx context.Context, r Request) (Report, error) {
	if err := s.Check(r.Policy); err != nil {
		return Report{}, err
	}
	names := s.locations(r.Policy)
	if err := s.o.Catalog.Plan(ctx, r.Job, names, r.Retain, s.o.Now()); err != nil {
		return Report{}, err
	}
	all, err := s.o.Catalog.Copies(ctx, r.Job, "")
	if err != nil {
		return Report{}, err
	}
	run := newRun(s, r, all)
	var group sync.WaitGroup
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, name := range names {
		if tasks := open(all, name); len(tasks) > 0 {
			group.Go(func() { run.location(within, cancel, s.used(name), tasks) })
		}
	}
	group.Wait()
	if err := run.record.flush(context.WithoutCancel(ctx)); err != nil {
		cancel(err)
	}
	if err := context.Cause(within); err != nil {
		return Report{}, err
	}
	return s.settle(ctx, r, run)
}

// open gives the copies in a location that are not verified.
func open(all []catalog.Copy, name string) (tasks []*catalog.Copy) {
	for i := range all {
		c := &all[i]
		if c.Location == name && c.Verified.IsZero() && c.Deleted.IsZero() && c.Replaced == 0 {
			tasks = append(tasks, c)
		}
	}
	return tasks
}

// run is one call of Save.
type run struct {
	s      *Store
	r      Request
	files  files
	record recorder
	done   atomic.Int64 // bytes of verified copies
	sent   atomic.Int64 // bytes of the copies that are being stored which were read
	total  int64

	mu   sync.Mutex // guards errs and hopeless
	errs map[string]error
	// hopeless has the locations with an error that another attempt would not change.
	hopeless map[string]bool
}

func newRun(s *Store, r Request, all []catalog.Copy) *run {
	v := &run{s: s, r: r, errs: map[string]error{}, hopeless: map[string]bool{}}
	v.files.open, v.record.s = r.Open, s
	for _, c := range all {
		if !slices.Contains(s.locations(r.Policy), c.Location) || !c.Deleted.IsZero() || c.Replaced > 0 {
			continue
		}
		v.total += c.Size
		if !c.Verified.IsZero() {
			v.done.Add(c.Size)
		}
	}
	return v
}

// failed enters the error of a location.
func (v *run) failed(name string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.errs[name] = err
	if !temporary(err) {
		v.hopeless[name] = true
	}
	v.s.o.Log.Warn("storage task failed", "job", v.r.Job, "location", name, "error", err)
}

// location runs the tasks of a location until they are done or the location fails several times in a row.
func (v *run) location(ctx context.Context, stop context.CancelCauseFunc, t *Target, tasks []*catalog.Copy) {
	need := int64(0)
	for _, c := range tasks {
		need += c.Size
	}
	if err := v.s.ready(ctx, t, need); err != nil {
		v.failed(t.Name, err)
		return
	}
	var group sync.WaitGroup
	queue := make(chan *catalog.Copy)
	var row atomic.Int32 // failures after each other
	for range min(t.Parallel, len(tasks)) {
		group.Go(func() {
			for c := range queue {
				if row.Load() >= maxFailures {
					continue // not reachable: the next attempt takes them
				}
				err := v.task(ctx, t, *c)
				if ctx.Err() != nil {
					continue
				}
				if e := v.record.put(ctx, catalog.Attempt{
					CopyKey: c.CopyKey, Err: err, At: v.s.o.Now(), Next: v.s.next(t),
				}); e != nil {
					stop(e)
					continue
				}
				if err == nil {
					row.Store(0)
					v.progress(c.Size)
					continue
				}
				v.failed(t.Name, err)
				if temporary(err) {
					row.Add(1)
				}
			}
		})
	}
	for _, c := range tasks {
		queue <- c
	}
	close(queue)
	group.Wait()
}

// progress adds verified bytes.
func (v *run) progress(n int64) {
	v.done.Add(n)
	v.report()
}

func (v *run) report() {
	if v.r.Progress != nil {
		v.r.Progress(min(v.done.Load()+v.sent.Load()/2, v.total), v.total)
	}
}

// counted reports how far a source is read. It is used for one copy.
type counted struct {
	Source
	v    *run
	size int64
	read atomic.Int64 // at most size: what is read again does not count
}

// ReadAt implements [io.ReaderAt].
func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Source.ReadAt(p, off)
	if now := c.read.Add(int64(n)); now <= c.size {
		c.v.sent.Add(int64(n))
		c.v.report()
	} else {
		c.read.Add(int64(-n))
	}
	return n, err
}

// task stores one copy and reads it back.
func (v *run) task(ctx context.Context, t *Target, c catalog.Copy) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	src, err := v.files.get(c.Of.Path)
	if err != nil {
		return fmt.Errorf("artifact %s: %w", c.Of.Path, err)
	}
	defer v.files.put(c.Of.Path)
	shown := &counted{Source: src, v: v, size: c.Of.Size}
	defer func() { v.sent.Add(-shown.read.Load()) }()
	return v.s.store(ctx, t, c, shown)
}

// store stores a planned copy from a source and verifies it.
func (s *Store) store(ctx context.Context, t *Target, c catalog.Copy, src Source) error {
	defer t.Locks.set(c.Key, c.Retain)()
	// The digest of a source that is far away is compared while it is read, so that another one is used if it is wrong.
	_, far := src.(*remote)
	slow := t.At.Properties().Tier == storage.Slow
	content := storage.Content{Size: c.Of.Size, SHA256: c.Of.SHA256, ReadBack: !far && !slow}
	progress := &storage.Progress{State: c.Progress, Save: func(state json.RawMessage) error {
		return s.o.Catalog.SaveProgress(ctx, c.CopyKey, state)
	}}
	err := t.At.Put(ctx, c.Key, src, content, progress)
	switch {
	case errors.Is(err, storage.ErrExists):
		return s.evade(ctx, c, err)
	case err != nil:
		return err
	}
	err = s.readBack(ctx, t, c, content)
	if content.ReadBack && errors.Is(err, storage.ErrDamage) { // is it the location, or the source?
		if e := compare(src, c); e != nil {
			return e
		}
	}
	return err
}

// compare compares the digest of a source with the one that the catalog has.
func compare(src Source, c catalog.Copy) error {
	sum := sha256.New()
	_, err := io.Copy(sum, io.NewSectionReader(src, 0, c.Of.Size))
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != c.Of.SHA256 {
		err = &storage.Error{Location: "work directory", Op: "read", Key: c.Of.Path, Err: storage.ErrSource}
	}
	return err
}

// evade plans a copy under another key, for the next attempt, because a file with other content has the key: a damaged
// one that a crash left before it could be deleted, or one that a catalog restored from a backup does not have. The
// file is left as it is.
func (s *Store) evade(ctx context.Context, c catalog.Copy, cause error) error {
	if _, err := s.o.Catalog.PlanReplacement(ctx, c.CopyKey, s.o.Now()); err != nil {
		return err
	}
	const reason = "another file has the key, and is left as it is"
	err := s.o.Catalog.PutDeleted(ctx, c.CopyKey, s.o.Agent, reason, s.o.Now())
	if err != nil {
		return err
	}
	return &storage.Error{
		Location: c.Location, Op: "put", Key: c.Key, Transient: true,
		Err: fmt.Errorf("%w: the next attempt uses another key", cause),
	}
}

// readBack verifies a copy that was stored. A damaged one is deleted, so that the next attempt stores it anew. Of a
// slow location, which does not give a file at once, the size and the digest that it states are compared; its first
// fixity check is due after a day.
func (s *Store) readBack(ctx context.Context, t *Target, c catalog.Copy, content storage.Content) error {
	if t.At.Properties().Tier == storage.Slow {
		stat, err := t.At.Stat(ctx, c.Key)
		if err == nil && (stat.Size != content.Size || stat.SHA256 != "" && stat.SHA256 != content.SHA256) {
			err = fmt.Errorf("%s: %s: %w", t.Name, c.Key, storage.ErrDamage)
		}
		return err
	}
	err := storage.Verify(ctx, t.At, c.Key, content, nil)
	if !errors.Is(err, storage.ErrDamage) {
		return err
	}
	if e := t.At.Delete(ctx, c.Key); e != nil {
		return errors.Join(err, e)
	}
	return &storage.Error{Location: t.Name, Op: "read back", Key: c.Key, Err: err, Transient: true}
}

// next is the time of the first fixity check of a copy that is stored now.
func (s *Store) next(t *Target) time.Time {
	if t.At.Properties().Tier == storage.Slow {
		return s.o.Now().Add(24 * time.Hour)
	}
	return s.o.Now().Add(s.Interval(t.Name))
}

// settle compares what is stored with the policy.
func (s *Store) settle(ctx context.Context, r Request, v *run) (Report, error) {
	all, artifacts, err := s.o.Catalog.Standing(ctx, r.Job)
	if err != nil {
		return Report{}, err
	}
	names := s.locations(r.Policy)
	out := Report{Artifacts: artifacts}
	good, per := map[int64][]string{}, map[string]int{} // locations by artifact, artifacts by location
	for _, c := range all {
		if slices.Contains(names, c.Location) {
			good[c.Artifact] = append(good[c.Artifact], c.Location)
			per[c.Location]++
			out.Copies++
			out.Bytes += c.Size
		}
	}
	kept := len(good) == artifacts
	for _, at := range good {
		kept = kept && r.Policy.kept(names, at)
	}
	for _, name := range names {
		if lacks := artifacts - per[name]; lacks > 0 {
			out.Behind = append(out.Behind, Missing{name, lacks, v.errs[name]})
		}
	}
	if kept {
		return out, nil
	}
	var able []string
	for _, name := range names {
		if !v.hopeless[name] {
			able = append(able, name)
		}
	}
	return out, &Error{Op: "store", Job: r.Job, Missing: out.Behind, Transient: r.Policy.kept(names, able)}
}

// Kept reports by its error which copies an archive lacks now, by what the catalog has: an [*Error] unless every
// artifact has verified copies without a known fault, as the policy requires. An archive without artifacts lacks all.
func (s *Store) Kept(ctx context.Context, job string, p Policy) error {
	report, err := s.settle(ctx, Request{Job: job, Policy: p}, &run{})
	if err == nil && report.Artifacts == 0 {
		return &Error{Op: "store", Job: job}
	}
	return err
}

// kept reports whether copies in some of the locations are what the policy requires.
func (p Policy) kept(names, at []string) bool {
	for _, name := range p.Required {
		if !slices.Contains(at, name) {
			return false
		}
	}
	return len(at) >= p.Quorum.of(len(names))
}

// files opens each artifact once for all tasks that read it at the same time, so that the locations read the same
// pages.
type files struct {
	open func(path string) (Source, error)

	mu    sync.Mutex // guards inUse
	inUse map[string]*file
}

type file struct {
	Source
	users int
}

func (f *files) get(path string) (Source, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.inUse[path]; x != nil {
		x.users++
		return x.Source, nil
	}
	src, err := f.open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = &storage.Error{Location: "work directory", Op: "open", Key: path, Err: err}
		}
		return nil, err
	}
	if f.inUse == nil {
		f.inUse = map[string]*file{}
	}
	f.inUse[path] = &file{src, 1}
	return src, nil
}

func (f *files) put(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.inUse[path]
	if x.users--; x.users == 0 {
		delete(f.inUse, path)
		_ = x.Close() // it was only read
	}
}

// recorder enters results in the catalog, several at a time: each write is a sync of the disk. What a crash loses is
// found by the next attempt, because the copies exist.
type recorder struct {
	s *Store

	mu      sync.Mutex // guards waiting and last
	waiting []catalog.Attempt
	last    time.Time
}

const (
	mostWaiting = 64
	mostDelay   = time.Second
)

func (r *recorder) put(ctx context.Context, a catalog.Attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, a)
	if len(r.waiting) < mostWaiting && time.Since(r.last) < mostDelay {
		return nil
	}
	return r.write(ctx)
}

func (r *recorder) flush(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.write(ctx)
}

func (r *recorder) write(ctx context.Context) error {
	err := r.s.o.Catalog.PutAttempts(ctx, r.waiting)
	if err == nil {
		r.waiting, r.last = nil, time.Now()
	}
	return err
}
