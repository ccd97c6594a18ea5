package joblog

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/internal/lines"
	"github.com/stagepost/stagepost/job"
)

// Most lines and bytes of one chunk.
const (
	maxLines = 10_000
	maxChunk = 4 << 20
)

// Read returns up to n lines (0: 1000) from a byte offset, which is the Next of an earlier call or 0. The log of a job
// that never logged is empty. An unfinished line is left for the next call; a line that a crash cut off is replaced by
// a warning.
func (l *Logs) Read(id job.ID, offset int64, n int) (api.Log, error) {
	c := api.Log{Lines: []api.Line{}, Next: max(offset, 0)}
	if n <= 0 {
		n = 1000
	}
	n = min(n, maxLines)
	f, err := l.reader(id)
	if f == nil {
		return c, err
	}
	defer f.Close()
	start := c.Next
	r := bufio.NewReaderSize(io.NewSectionReader(f, start, maxChunk), 64<<10)
	for len(c.Lines) < n {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			c.More = len(c.Lines) > 0 && c.Next+int64(len(text)) == start+maxChunk
			return c, nil
		}
		if err != nil {
			return c, internal(id, err)
		}
		c.Next += int64(len(text))
		if len(text) > 1 {
			c.Lines = append(c.Lines, parse(text))
		}
	}
	_, err = r.Peek(1)
	c.More = err == nil
	return c, nil
}

// maxTail is how many bytes of the end of a log [Logs.Tail] reads.
const maxTail = 1 << 20

// Tail returns the last n lines, at most those in the last MiB. Next is the end of the last line.
func (l *Logs) Tail(id job.ID, n int) (api.Log, error) {
	c := api.Log{Lines: []api.Line{}}
	f, err := l.reader(id)
	if f == nil {
		return c, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return c, internal(id, err)
	}
	start := max(0, info.Size()-maxTail)
	text, err := io.ReadAll(io.NewSectionReader(f, start, info.Size()-start))
	if err != nil {
		return c, internal(id, err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // an unfinished line is left for the next call
	c.Next = start + int64(len(text))
	lines := bytes.SplitAfter(text, []byte("\n"))
	if start > 0 {
		lines = lines[1:] // its beginning may be missing
	}
	lines = slices.DeleteFunc(lines, func(line []byte) bool { return len(line) <= 1 })
	for _, line := range lines[max(0, len(lines)-min(n, maxLines)):] {
		c.Lines = append(c.Lines, parse(line))
	}
	return c, nil
}

// Size returns the length of a log in bytes; 0: there is none.
func (l *Logs) Size(id job.ID) (int64, error) {
	path, err := l.path(id)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, internal(id, err)
	}
	return info.Size(), nil
}

// reader opens the log of a job; nil without an error: there is none.
func (l *Logs) reader(id job.ID) (*os.File, error) {
	path, err := l.path(id)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, internal(id, err)
	}
	return f, nil
}

func internal(id job.ID, err error) error {
	return &job.Error{Op: "log", Kind: job.Internal, ID: id, Err: err}
}

func parse(text []byte) api.Line {
	var line api.Line
	if err := json.Unmarshal(text, &line); err != nil {
		return api.Line{Level: "WARN", Msg: fmt.Sprintf("a line of %d bytes was cut off or damaged", len(text))}
	}
	return line
}

// LastLine returns the highest number of a line of one claim ([lines.Number]), or 0 if there is none or the log cannot
// be read.
func (l *Logs) LastLine(id job.ID, epoch int64) int64 {
	last, more := int64(0), true
	for offset := int64(0); more; {
		c, err := l.Read(id, offset, maxLines)
		if err != nil {
			return last
		}
		for i := range c.Lines {
			var attrs map[string]json.RawMessage
			var n int64
			if c.Lines[i].Epoch == epoch && json.Unmarshal(c.Lines[i].Attrs, &attrs) == nil &&
				json.Unmarshal(attrs[lines.Number], &n) == nil {
				last = max(last, n)
			}
		}
		offset, more = c.Next, c.More
	}
	return last
}
