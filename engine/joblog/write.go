package joblog

import (
	"bytes"
	"container/list"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// fullMark is the message of the last line of a full log.
const fullMark = "the log is full: what follows was left out"

// file is the open log of one job.
type file struct {
	id   job.ID
	f    *os.File
	size int64
	full bool
}

// writer appends lines to the log of one job. The handler calls Write once per line.
type writer struct {
	logs *Logs
	id   job.ID
}

func (w *writer) Write(line []byte) (int, error) {
	l := w.logs
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.open(w.id)
	if err != nil {
		return 0, err
	}
	if f.full {
		return len(line), nil
	}
	text := line
	if len(text) > l.options.MaxLine {
		text = l.note(fmt.Sprintf("a line of %d bytes was left out", len(line)))
	}
	if f.size+int64(len(text)) > l.options.MaxBytes {
		f.full, text = true, l.note(fullMark)
	}
	n, err := f.f.Write(text)
	f.size += int64(n)
	if err != nil {
		return 0, err
	}
	return len(line), nil
}

// note makes a line from the log itself.
func (l *Logs) note(text string) []byte {
	// plain fields: cannot fail
	line, _ := json.Marshal(api.Line{Time: l.options.Now().Round(time.Microsecond), Level: "WARN", Msg: text})
	return append(line, '\n')
}

// open returns the open file of a job, or opens it. The caller holds the lock.
func (l *Logs) open(id job.ID) (*file, error) {
	if e := l.files[id]; e != nil {
		l.recent.MoveToFront(e)
		return e.Value.(*file), nil
	}
	if l.closed {
		return nil, errors.New("the job logs are closed")
	}
	path, err := l.path(id)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	one := &file{id: id, f: f}
	if err := one.resume(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for l.recent.Len() >= l.options.OpenFiles {
		l.drop(l.recent.Back())
	}
	l.files[id] = l.recent.PushFront(one)
	return one, nil
}

// resume checks whether an earlier process left the log full, and ends a line that it did not finish.
func (f *file) resume() error {
	end, err := f.f.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	f.size = end
	tail := make([]byte, min(end, 512))
	if _, err := f.f.ReadAt(tail, end-int64(len(tail))); err != nil {
		return err
	}
	f.full = bytes.Contains(tail, []byte(fullMark))
	if tail[len(tail)-1] != '\n' {
		n, err := f.f.Write([]byte{'\n'})
		f.size += int64(n)
		return err
	}
	return nil
}

func (l *Logs) drop(e *list.Element) {
	f := l.recent.Remove(e).(*file)
	delete(l.files, f.id)
	_ = f.f.Close() // every line is written already
}
