package packaging

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"sync/atomic"
)

// Blocks of a [fan]: a writer can be that many behind the others. Larger writes are slower on Linux, whose page
// cache then needs larger pieces of free memory.
const (
	fanBlock  = 128 << 10
	fanBlocks = 16
)

func buffer(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }

// fan gives what is written to several writers, each in a goroutine of its own. It collects blocks, and the writers
// share them, so that none waits for the others until all blocks are in use. It must be closed. It is for one
// goroutine.
type fan struct {
	block  []byte // that is being filled
	left   int    // blocks that were never used
	free   chan *fanJob
	in     []chan *fanJob
	ended  sync.WaitGroup
	closed bool
	failed atomic.Bool

	mu  sync.Mutex // guards err
	err error
}

// fanJob is a block that some writers still need.
type fanJob struct {
	text    []byte
	pending atomic.Int32 // writers
}

func newFan(writers ...io.Writer) *fan {
	f := &fan{left: fanBlocks, free: make(chan *fanJob, fanBlocks)}
	for _, w := range writers {
		in := make(chan *fanJob, fanBlocks)
		f.in = append(f.in, in)
		f.ended.Go(func() { f.serve(w, in) })
	}
	return f
}

// serve gives blocks to a writer. After an error of any writer it only releases them.
func (f *fan) serve(w io.Writer, in <-chan *fanJob) {
	for job := range in {
		if !f.failed.Load() {
			if _, err := w.Write(job.text); err != nil {
				f.fail(err)
			}
		}
		if job.pending.Add(-1) == 0 {
			f.free <- job
		}
	}
}

func (f *fan) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = errors.Join(f.err, err)
	f.failed.Store(true)
}

// Write implements [io.Writer]. It copies b. An error of a writer is returned by a later Write, or by close.
func (f *fan) Write(b []byte) (int, error) {
	total := len(b)
	for len(b) > 0 {
		if f.failed.Load() {
			return total - len(b), f.result()
		}
		if f.block == nil {
			f.block = f.take()
		}
		n := min(len(b), fanBlock-len(f.block))
		f.block, b = append(f.block, b[:n]...), b[n:]
		if len(f.block) == fanBlock {
			f.hand()
		}
	}
	return total, nil
}

// take gives an empty block. If all are in use, it waits for the slowest writer.
func (f *fan) take() []byte {
	select {
	case job := <-f.free:
		return job.text[:0]
	default:
	}
	if f.left > 0 {
		f.left--
		return make([]byte, 0, fanBlock)
	}
	return (<-f.free).text[:0]
}

// hand gives the block to the writers.
func (f *fan) hand() {
	job := &fanJob{text: f.block}
	job.pending.Store(int32(len(f.in)))
	f.block = nil
	for _, in := range f.in {
		in <- job
	}
}

func (f *fan) result() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// close gives the rest to the writers, waits for them and ends their goroutines. It returns their errors.
func (f *fan) close() error {
	if !f.closed {
		f.closed = true
		if len(f.block) > 0 {
			f.hand()
		}
		for _, in := range f.in {
			close(in)
		}
		f.ended.Wait()
	}
	return f.result()
}

// abandon ends the goroutines without giving the rest to the writers.
func (f *fan) abandon() {
	f.fail(errAbandoned)
	_ = f.close() // it is that error
}

var errAbandoned = errors.New("the package is abandoned")
