package sandbox

import (
	"io"
	"os"
	"sync/atomic"
)

// output copies what a command writes, up to a limit, and reads on beyond it so that the command goes on.
type output struct {
	read, written *os.File // the ends of the pipe; written is the command's
	to            io.Writer
	most          int64 // zero: no limit
	bytes         atomic.Int64
	cut           atomic.Bool
	done          chan struct{} // closed when no one holds the other end any more, or read was closed
}

// tap makes the pipe; nothing is read before collect.
func tap(to io.Writer, most int64) (*output, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if to == nil {
		to = io.Discard
	}
	return &output{read: r, written: w, to: to, most: most, done: make(chan struct{})}, nil
}

// collect ends at the end of the pipe. A writer that fails gets no more; the command is not stopped by it.
func (o *output) collect() {
	defer close(o.done)
	part := make([]byte, 32<<10)
	for {
		n, err := o.read.Read(part)
		before := o.bytes.Load()
		o.bytes.Add(int64(n))
		keep := n
		if o.most > 0 && before+int64(n) > o.most {
			keep = int(max(0, o.most-before))
			o.cut.Store(true)
		}
		if keep > 0 && o.to != nil {
			if _, failed := o.to.Write(part[:keep]); failed != nil {
				o.to = nil
				o.cut.Store(true)
			}
		}
		if err != nil {
			return
		}
	}
}

func (o *output) close() {
	_ = o.read.Close()
	_ = o.written.Close()
}
