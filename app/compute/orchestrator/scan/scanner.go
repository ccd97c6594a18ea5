// Package scan reads parts of large JSON objects.
package scan

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxField bounds what is kept of one value, and of one key.
const MaxField = 64 << 10

// ErrTooLong is the error of an object that is longer than its limit.
var ErrTooLong = errors.New("more bytes than such an answer can have")

// Scanner walks over one JSON object without holding more of it than the values that are asked for. encoding/json would
// make a token of each of the numbers that an original agent sends, a hundred nanoseconds and an allocation for a byte
// of a file.
type Scanner struct {
	r *bufio.Reader
}

// New returns a scanner of at most limit bytes.
func New(r io.Reader, limit int64) *Scanner {
	return &Scanner{r: bufio.NewReaderSize(&bounded{r: r, left: limit}, 64<<10)}
}

// bounded is an io.LimitedReader that distinguishes a limit from an end.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		if n, err := b.r.Read(p[:min(len(p), 1)]); n == 0 {
			return 0, err
		}
		return 0, ErrTooLong
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Peek gives the next byte that is no white space and leaves it there.
func (s *Scanner) Peek() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err != nil {
			return 0, unexpected(err)
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return c, s.r.UnreadByte()
	}
}

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (s *Scanner) want(c byte) error {
	got, err := s.Peek()
	if err != nil {
		return err
	}
	if got != c {
		return fmt.Errorf("%q where %q belongs", got, c)
	}
	_, err = s.r.ReadByte()
	return err
}

// Object calls each for every key; each must take the value.
func (s *Scanner) Object(each func(key string) error) error {
	if err := s.want('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.Peek()
		if err != nil {
			return err
		}
		if c == '}' && first {
			s.r.ReadByte()
			return s.end()
		}
		var raw []byte
		var key string
		if c != '"' {
			return fmt.Errorf("%q where a key belongs", c)
		}
		if err := s.Value(&raw); err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &key); err != nil {
			return err
		}
		if err := s.want(':'); err != nil {
			return err
		}
		if err := each(key); err != nil {
			return err
		}
		if c, err = s.Peek(); err != nil {
			return err
		}
		s.r.ReadByte()
		switch c {
		case '}':
			return s.end()
		case ',':
		default:
			return fmt.Errorf("%q after a value", c)
		}
	}
}

// end needs nothing but white space to follow.
func (s *Scanner) end() error {
	if c, err := s.Peek(); err == nil {
		return fmt.Errorf("%q after the object", c)
	} else if !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// Value passes over one value and appends it to keep, if that is not nil and it is not too long. Brackets are counted
// and strings are closed; what is kept is checked by its parser.
func (s *Scanner) Value(keep *[]byte) error {
	if _, err := s.Peek(); err != nil {
		return err
	}
	w := walk{}
	for {
		if _, err := s.r.Peek(1); err != nil {
			return unexpected(err)
		}
		chunk, _ := s.r.Peek(s.r.Buffered())
		n, err := w.over(chunk)
		if err != nil {
			return err
		}
		if keep != nil {
			if len(*keep)+n > MaxField {
				return fmt.Errorf("a value of more than %d bytes", MaxField)
			}
			*keep = append(*keep, chunk[:n]...)
		}
		s.r.Discard(n)
		if w.done {
			return nil
		}
	}
}

// walk is the state inside one value.
type walk struct {
	depth         int
	text, escaped bool
	bare          bool // a number or a word, which only what follows ends
	done          bool
}

// over gives how many bytes of chunk belong to the value, and sets done if it ends there.
func (w *walk) over(chunk []byte) (int, error) {
	for i := 0; i < len(chunk); i++ {
		c := chunk[i]
		if w.text {
			i += w.inText(chunk[i:])
			if !w.text && w.depth == 0 {
				w.done = true
				return i + 1, nil
			}
			continue
		}
		switch c {
		case '"':
			w.text = true
		case '{', '[':
			if w.bare {
				return 0, fmt.Errorf("%q inside a value", c)
			}
			w.depth++
		case '}', ']':
			if w.depth--; w.depth < 0 && w.bare {
				w.done = true
				return i, nil
			} else if w.depth < 0 {
				return 0, fmt.Errorf("%q where a value belongs", c)
			} else if w.depth == 0 {
				w.done = true
				return i + 1, nil
			}
		case ',', ' ', '\t', '\r', '\n':
			if w.depth == 0 {
				w.done = true
				return i, nil
			}
		default:
			w.bare = w.bare || w.depth == 0
		}
	}
	return len(chunk), nil
}

// inText moves over a string's characters and gives the offset of the last one that it inspected.
func (w *walk) inText(chunk []byte) int {
	i := 0
	for i < len(chunk) {
		if w.escaped {
			w.escaped = false
			i++
			continue
		}
		n := bytes.IndexAny(chunk[i:], `"\`)
		if n < 0 {
			return len(chunk) - 1
		}
		i += n
		if chunk[i] == '"' {
			w.text = false
			return i
		}
		w.escaped = true
		i++
	}
	return len(chunk) - 1
}
