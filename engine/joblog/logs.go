package joblog

import (
	"container/list"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/internal/lines"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of a directory of logs. The zero Options work.
type Options struct {
	MaxBytes  int64            // of one job's log; defaults to 1 MiB
	MaxLine   int              // bytes of one line; longer ones are left out with a note; defaults to 16 KiB
	OpenFiles int              // kept open at once; defaults to 64
	Level     slog.Leveler     // what is kept; defaults to slog.LevelInfo
	Now       func() time.Time // for the marker lines; defaults to time.Now
}

// Logs is a directory of job logs. It is safe for concurrent use, also by several processes.
type Logs struct {
	dir     string
	options Options

	mu     sync.Mutex // guards the rest and every write
	files  map[job.ID]*list.Element
	recent *list.List // of *file, most recently used first
	closed bool
}

var _ lines.Numbered = (*Logs)(nil)

// Open creates the directory if it does not exist.
func Open(dir string, o Options) (*Logs, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 20
	}
	if o.MaxLine <= 0 {
		o.MaxLine = 16 << 10
	}
	if o.OpenFiles <= 0 {
		o.OpenFiles = 64
	}
	if o.Level == nil {
		o.Level = slog.LevelInfo
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("job logs: %w", err)
	}
	return &Logs{dir: dir, options: o, files: map[job.ID]*list.Element{}, recent: list.New()}, nil
}

// Logger returns the log of one claim of a job. Attributes are written under "attrs".
func (l *Logs) Logger(id job.ID, epoch int64, state lifecycle.State) *slog.Logger {
	h := slog.NewJSONHandler(&writer{logs: l, id: id}, &slog.HandlerOptions{Level: l.options.Level})
	return slog.New(h).With("epoch", epoch, "state", string(state)).WithGroup("attrs")
}

// Remove deletes the log of a job; there may be none.
func (l *Logs) Remove(id job.ID) error {
	path, err := l.path(id)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.files[id]; e != nil {
		l.drop(e)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("job log: %w", err)
	}
	return nil
}

// Close closes the files. What is logged afterwards is lost.
func (l *Logs) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for l.recent.Len() > 0 {
		l.drop(l.recent.Back())
	}
	return nil
}

// path returns the file of a job. Ids are not trusted: only one that is a plain file name has a file.
func (l *Logs) path(id job.ID) (string, error) {
	if len(id) < 3 || len(id) > 128 {
		return "", job.Errorf(job.Invalid, "log", "", "not an id of a job: %.128q", string(id))
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return "", job.Errorf(job.Invalid, "log", "", "not an id of a job: %q", string(id))
		}
	}
	return filepath.Join(l.dir, string(id[len(id)-2:]), string(id)+".log"), nil
}
