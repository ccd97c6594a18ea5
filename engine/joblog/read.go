package joblog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

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
	path, err := l.path(id)
	if err != nil {
		return c, err
	}
	if n <= 0 {
		n = 1000
	}
	n = min(n, maxLines)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, &job.Error{Op: "log", Kind: job.Internal, ID: id, Err: err}
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
			return c, &job.Error{Op: "log", Kind: job.Internal, ID: id, Err: err}
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
