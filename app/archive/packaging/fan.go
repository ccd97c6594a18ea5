package packaging

import (
	"bufio"
	"errors"
	"io"
	"sync"
)

// small is the size below which writing one after the other is faster than at once.
const small = 32 << 10

func buffer(w io.Writer) *bufio.Writer { return bufio.NewWriterSize(w, 64<<10) }

// fan gives what is written to several writers at once, and waits for all of them. It must be closed.
type fan struct {
	first io.Writer
	rest  []io.Writer
	in    []chan []byte
	errs  []error // of the last Write, in the order of rest
	done  sync.WaitGroup
	ended sync.WaitGroup
}

func newFan(writers ...io.Writer) *fan {
	f := &fan{first: writers[0], rest: writers[1:], errs: make([]error, len(writers)-1)}
	for i, w := range f.rest {
		in := make(chan []byte)
		f.in = append(f.in, in)
		f.ended.Go(func() {
			for b := range in {
				_, f.errs[i] = w.Write(b)
				f.done.Done()
			}
		})
	}
	return f
}

// Write implements [io.Writer]. The writers must not keep b.
func (f *fan) Write(b []byte) (int, error) {
	if len(b) < small {
		var err error
		for i, w := range f.rest {
			_, f.errs[i] = w.Write(b)
		}
		_, err = f.first.Write(b)
		return f.result(b, err)
	}
	f.done.Add(len(f.rest))
	for _, in := range f.in {
		in <- b
	}
	_, err := f.first.Write(b)
	f.done.Wait()
	return f.result(b, err)
}

func (f *fan) result(b []byte, err error) (int, error) {
	if err = errors.Join(append([]error{err}, f.errs...)...); err != nil {
		return 0, err
	}
	return len(b), nil
}

// close ends the goroutines.
func (f *fan) close() {
	for _, in := range f.in {
		close(in)
	}
	f.ended.Wait()
}
