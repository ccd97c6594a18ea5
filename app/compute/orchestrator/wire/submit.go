package wire

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// File is a file to submit. Its size is known before, since the original requires a content length.
type File struct {
	Name string // without directories
	Size int64
	Open func() (io.ReadCloser, error)
}

// Submit sends files to an agent, one after the other from where they are, and gives the payload that it made of them.
// key, if any, is an idempotency key for our agents: a second submission under it gives the payload of the first.
//
// The files must be of the size that they are declared to have, and at least one: an original agent refuses an empty
// form.
func (c *Client) Submit(ctx context.Context, files []File, key string) (Payload, error) {
	body, err := newFormBody(files)
	if err != nil {
		return Payload{}, &CallError{"submit", ErrNotSent, err}
	}
	head := http.Header{}
	if key != "" {
		head.Set("Idempotency-Key", key)
	}
	a, err := c.call(ctx, call{op: "submit", method: http.MethodPost, url: c.upload.String(), body: body, head: head,
		wait: c.o.Header})
	if err != nil {
		return Payload{}, err
	}
	defer a.Close()
	// An original agent sends the upload back, with up to four characters for a byte.
	p, err := decodePayload(a, 4*body.length+1<<20)
	if err != nil {
		return Payload{}, a.misread(err)
	}
	return p, nil
}

// formBody is a form of files with a known length, read as it is sent. It cannot be rewound, so that no transport sends
// it a second time.
type formBody struct {
	boundary string
	length   int64
	handed   atomic.Bool // the last byte has been given to the connection
	moved    func()      // called when bytes are taken

	mu    sync.Mutex // the transport may close while it reads
	files []File
	next  int
	given int64
	part  io.Reader // what is left of the bytes between files, and then of a file
	open  *exactly
	err   error
}

func newFormBody(files []File) (*formBody, error) {
	if len(files) == 0 {
		return nil, errors.New("there are no files to submit")
	}
	f := &formBody{boundary: rand.Text() + rand.Text(), files: files}
	for i, one := range files {
		if one.Name == "" || one.Size < 0 || basename(one.Name) != one.Name {
			return nil, fmt.Errorf("file %d: %.80q with %d bytes cannot be submitted", i, one.Name, one.Size)
		}
		f.length += int64(len(f.head(i))) + one.Size
	}
	f.length += int64(len(f.tail()))
	f.part = bytes.NewReader(f.head(0))
	return f, nil
}

func (f *formBody) head(i int) []byte {
	begin := "--" + f.boundary + "\r\n"
	if i > 0 {
		begin = "\r\n" + begin
	}
	return append([]byte(begin), formHeader(f.files[i].Name)...)
}

func (f *formBody) tail() []byte { return []byte("\r\n--" + f.boundary + "--\r\n") }

func (f *formBody) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.err == nil {
		n, err := f.part.Read(p)
		if n > 0 {
			f.given += int64(n)
			if f.given == f.length {
				f.handed.Store(true)
			}
			if f.moved != nil {
				f.moved()
			}
		}
		switch {
		case err == io.EOF:
			f.err = f.turn()
		case err != nil:
			f.err = err
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, f.err
}

// turn goes on to what follows the part that has ended; io.EOF after the last.
func (f *formBody) turn() error {
	if f.open != nil { // a file has ended
		f.open.Close()
		f.open = nil
		if f.next++; f.next < len(f.files) {
			f.part = bytes.NewReader(f.head(f.next))
		} else {
			f.part = bytes.NewReader(f.tail())
		}
		return nil
	}
	if f.next == len(f.files) {
		return io.EOF
	}
	one := f.files[f.next]
	r, err := one.Open()
	if err != nil {
		return fmt.Errorf("file %q: %w", one.Name, err)
	}
	f.open = &exactly{ReadCloser: r, left: one.Size, name: one.Name}
	f.part = f.open
	return nil
}

// Close is called by the transport, perhaps in the middle of a Read.
func (f *formBody) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = errors.New("closed")
	}
	if f.open != nil {
		f.open.Close()
		f.open = nil
	}
	return nil
}

// exactly reads a file that must have the size that was announced.
type exactly struct {
	io.ReadCloser
	left int64
	name string
}

func (e *exactly) Read(p []byte) (int, error) {
	if e.left == 0 {
		var one [1]byte
		n, err := e.ReadCloser.Read(one[:])
		if n > 0 {
			return 0, fmt.Errorf("file %q has grown", e.name)
		}
		return 0, err
	}
	n, err := e.ReadCloser.Read(p[:min(int64(len(p)), e.left)])
	e.left -= int64(n)
	if err == io.EOF && e.left > 0 {
		return n, fmt.Errorf("file %q is shorter by %d bytes than it was", e.name, e.left)
	}
	if err == io.EOF && n > 0 {
		err = nil // the end is found in the next read
	}
	return n, err
}
