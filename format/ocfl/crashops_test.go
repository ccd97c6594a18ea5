package ocfl

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var errCrash = errors.New("the process has crashed")

// crashKind is the effect of a crash on an operation.
type crashKind int

const (
	crashBefore crashKind = iota // it was not done
	crashAfter                   // it was done, and nothing after it
	crashTorn                    // a write was half done
)

// powerLoss is what the disk loses in addition to the crash of the process.
type powerLoss int

const (
	powerStays powerLoss = iota
	// files that were not synced are empty; renames whose directory was not synced did not happen
	losesUnsynced
	losesOldestMove // the same, but only the oldest such rename did not happen: a disk may reorder them
)

// crashOps is a fileOps that counts its operations, crashes at one of them, and records what was not synced.
type crashOps struct {
	disk diskOps
	dir  string
	stop int // number of the operation that crashes; 0: never
	kind crashKind

	ops   []string
	dead  bool
	files map[string]*bool // created file -> was it synced
	moves []move           // renames whose directory was not synced, oldest first
	sets  []*orderedSet

	ignoreSync    bool // controls: as if the code had forgotten to sync
	ignoreSyncDir bool
}

type move struct {
	from, to string
	replaced []byte // content of the file that was at to
	hadFile  bool
	exchange bool // both directories
}

func (w *crashOps) op(name string, do func() error) error {
	if w.dead {
		return errCrash
	}
	w.ops = append(w.ops, name)
	if len(w.ops) == w.stop {
		w.dead = true
		if w.kind == crashBefore || (w.kind == crashTorn && !strings.HasPrefix(name, "write")) {
			return errCrash
		}
		if err := do(); err != nil {
			return err
		}
		return errCrash
	}
	return do()
}

func (w *crashOps) Mkdir(name string) error {
	return w.op("mkdir "+name, func() error { return w.disk.Mkdir(name) })
}

func (w *crashOps) Create(name string) (syncFile, error) {
	var f syncFile
	err := w.op("create "+name, func() (err error) { f, err = w.disk.Create(name); return err })
	if err != nil {
		if f != nil {
			f.Close()
		}
		return nil, err
	}
	synced := new(bool)
	w.files[name] = synced
	return &crashFile{w, f, name, synced}, nil
}

func (w *crashOps) Rename(from, to string) error {
	return w.op("rename "+from+" "+to, func() error {
		m := move{from: from, to: to}
		if data, err := os.ReadFile(filepath.Join(w.dir, to)); err == nil {
			m.replaced, m.hadFile = data, true
		}
		if err := w.disk.Rename(from, to); err != nil {
			return err
		}
		moved := map[string]*bool{}
		for name, synced := range w.files {
			if name == from || strings.HasPrefix(name, from+"/") {
				name = to + strings.TrimPrefix(name, from)
			}
			moved[name] = synced
		}
		w.files = moved
		for _, set := range w.sets {
			for i, dir := range set.dirs {
				if dir == from || strings.HasPrefix(dir, from+"/") {
					set.dirs[i] = to + strings.TrimPrefix(dir, from)
				}
			}
		}
		for i, earlier := range w.moves {
			if strings.HasPrefix(earlier.to, from+"/") {
				w.moves[i].to = to + strings.TrimPrefix(earlier.to, from)
			}
		}
		w.moves = append(w.moves, m)
		return nil
	})
}

func (w *crashOps) Exchange(a, b string) error {
	return w.op("exchange "+a+" "+b, func() error {
		if err := w.disk.Exchange(a, b); err != nil {
			return err
		}
		swap := func(name string) string {
			for from, to := range map[string]string{a: b, b: a} {
				if strings.HasPrefix(name, from+"/") {
					return to + strings.TrimPrefix(name, from)
				}
			}
			return name
		}
		files := map[string]*bool{}
		for name, synced := range w.files {
			files[swap(name)] = synced
		}
		w.files = files
		for i := range w.moves {
			w.moves[i].from, w.moves[i].to = swap(w.moves[i].from), swap(w.moves[i].to)
		}
		w.moves = append(w.moves, move{from: a, to: b, exchange: true})
		return nil
	})
}

func (w *crashOps) Remove(name string) error {
	return w.op("remove "+name, func() error { return w.disk.Remove(name) })
}

func (w *crashOps) RemoveAll(name string) error {
	return w.op("removeall "+name, func() error { return w.disk.RemoveAll(name) })
}

func (w *crashOps) SyncDir(name string) error {
	return w.op("syncdir "+name, func() error {
		if !w.ignoreSyncDir {
			w.moves = slices.DeleteFunc(w.moves, func(m move) bool { return path.Dir(m.to) == name })
		}
		return nil
	})
}

func (w *crashOps) Within(string) (fileOps, error) { return w, nil }

func (w *crashOps) Leave() {}

func (w *crashOps) Set() syncSet { return w.setOn(w) }

// setOn gives a set whose syncs are operations of ops, which is w or wraps it.
func (w *crashOps) setOn(ops fileOps) *orderedSet {
	set := &orderedSet{ops: ops}
	w.sets = append(w.sets, set)
	return set
}

// orderedSet syncs nothing before Sync, and then one after the other in the order in which they were added: files,
// then directories.
type orderedSet struct {
	ops   fileOps
	files []syncFile
	dirs  []string
}

func (s *orderedSet) File(f syncFile, _ int64) error {
	s.files = append(s.files, f)
	return nil
}

func (s *orderedSet) Dir(name string) error {
	if !slices.Contains(s.dirs, name) {
		s.dirs = append(s.dirs, name)
	}
	return nil
}

func (s *orderedSet) Sync() error {
	files, dirs := s.files, s.dirs
	s.files, s.dirs = nil, nil
	var err error
	for _, f := range files {
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	for _, dir := range dirs {
		if err == nil {
			err = s.ops.SyncDir(dir)
		}
	}
	return err
}

func (s *orderedSet) Close() error {
	for _, f := range s.files {
		f.Close()
	}
	s.files = nil
	return nil
}

type crashFile struct {
	w      *crashOps
	f      syncFile
	name   string
	synced *bool
}

func (f *crashFile) Write(p []byte) (int, error) {
	n := len(p)
	err := f.w.op("write "+f.name, func() error {
		part := p
		if f.w.dead && f.w.kind == crashTorn {
			part = p[:len(p)/2]
		}
		_, err := f.f.Write(part)
		return err
	})
	if err != nil {
		n = 0
	}
	return n, err
}

func (f *crashFile) Sync() error {
	return f.w.op("sync "+f.name, func() error { *f.synced = !f.w.ignoreSync; return nil })
}

func (f *crashFile) Close() error {
	f.f.Close()
	return nil
}

// lose makes the directory as it is after a power failure.
func (w *crashOps) lose(t *testing.T, loss powerLoss) {
	t.Helper()
	if loss == powerStays {
		return
	}
	for name, synced := range w.files {
		full := filepath.Join(w.dir, name)
		if _, err := os.Stat(full); err == nil && !*synced {
			if err := os.Truncate(full, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	undo := slices.Clone(w.moves)
	slices.Reverse(undo)
	if loss == losesOldestMove && len(undo) > 1 {
		undo = undo[len(undo)-1:]
	}
	for _, m := range undo {
		if m.exchange {
			if err := w.disk.Exchange(m.from, m.to); err != nil {
				os.RemoveAll(filepath.Join(w.dir, m.to)) // the other one is gone
			}
			continue
		}
		from, to := filepath.Join(w.dir, m.from), filepath.Join(w.dir, m.to)
		if os.Rename(to, from) != nil {
			os.RemoveAll(to) // its old directory is gone: then nothing names it
		}
		if m.hadFile {
			if err := os.WriteFile(to, m.replaced, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
