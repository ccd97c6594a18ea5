package log

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Damage is the error of [Read] for a log that is not what [Log] left, whenever the power failed.
type Damage struct {
	File    string
	Problem string
}

func (e *Damage) Error() string { return fmt.Sprintf("%s is damaged: %s", e.File, e.Problem) }

// Read calls each with number and content of the records in dir whose number is higher than after, ascending, and
// returns the last number: after, if there are none. What follows the last whole record was never synced, and is
// ignored. Read returns a [Damage] if records are missing or damaged before a whole one, and for segments of another
// installation or format. No directory is an empty log. The content is valid until each returns; an error of each
// ends Read.
func Read(dir, installation string, after uint64, each func(number uint64, content []byte) error) (last uint64,
	err error) {
	firsts, err := list(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return after, nil
	}
	if err != nil || len(firsts) == 0 {
		return after, err
	}
	for len(firsts) > 1 && firsts[1] <= after+1 { // all its records are up to after
		firsts = firsts[1:]
	}
	if firsts[0] > after+1 {
		return after, &Damage{File: dir, Problem: fmt.Sprintf("the records %d to %d are missing", after+1, firsts[0]-1)}
	}
	last = after
	for i, first := range firsts {
		s := segment{file: filepath.Join(dir, name(first)), newest: i == len(firsts)-1}
		if !s.newest {
			s.next = firsts[i+1]
		}
		end, err := s.read(installation, first, func(number uint64, content []byte) error {
			if number <= after {
				return nil
			}
			return each(number, content)
		})
		if err != nil {
			return last, err
		}
		last = max(last, end)
	}
	return last, nil
}

// segment is a segment that is read.
type segment struct {
	file   string
	newest bool
	next   uint64 // first number of the next segment
}

// read returns the number of the last record.
func (s *segment) read(installation string, first uint64, each func(uint64, []byte) error) (last uint64, err error) {
	b, err := os.ReadFile(s.file)
	if err != nil {
		return 0, err
	}
	h, err := parseHeader(b)
	switch {
	case err != nil:
		return 0, s.damage("%v", err)
	case h.first != first:
		return 0, s.damage("its first record is number %d", h.first)
	case h.installation != installation:
		return 0, s.damage("it belongs to installation %s, not to %s", h.installation, installation)
	}
	last, at := first-1, headerSize
	for {
		number, content, ok := h.record(b, at)
		if !ok || number != last+1 {
			break
		}
		if err := each(number, content); err != nil {
			return last, err
		}
		last, at = number, at+span(len(content))
	}
	if !s.newest {
		if last+1 != s.next {
			return last, s.damage("record %d at byte %d is damaged or missing; %s follows", last+1, at, name(s.next))
		}
		return last, nil
	}
	if where, number, found := h.later(b, at, last); found {
		return last, s.damage("record %d at byte %d is damaged: record %d at byte %d is whole", last+1, at, number,
			where)
	}
	return last, nil
}

func (s *segment) damage(format string, args ...any) error {
	return &Damage{File: s.file, Problem: fmt.Sprintf(format, args...)}
}
