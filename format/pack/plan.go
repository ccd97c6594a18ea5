package pack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxPlan bounds the size of plan.json.
const maxPlan = 4096

// File is an opened content file, such as *os.File.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (fs.FileInfo, error)
}

// Opener opens the content that an entry's Source names.
type Opener func(source string) (File, error)

// ReadSummary reads the summary of the plan in a directory; fs.ErrNotExist if there is none, or an unfinished one.
func ReadSummary(dir *os.Root) (Summary, error) {
	f, err := dir.Open(planFile)
	if err != nil {
		return Summary{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPlan))
	if err != nil {
		return Summary{}, err
	}
	var s Summary
	if err := json.Unmarshal(text, &s); err != nil {
		return Summary{}, fmt.Errorf("%s: %w", planFile, err)
	}
	return s, nil
}

// Open opens the archive of a plan for reading. The plan may be removed while it is open.
func Open(dir *os.Root, open Opener) (*Reader, error) {
	s, err := ReadSummary(dir)
	if err != nil {
		return nil, err
	}
	r := &Reader{Summary: s, open: open, number: -1, opened: -1}
	for _, one := range []struct {
		name string
		file **os.File
		size int64 // -1: any
	}{{indexFile, &r.index, s.Holes * holeBytes}, {literalsFile, &r.literals, s.Literals},
		{sourcesFile, &r.sources, -1}} {
		if *one.file, err = dir.Open(one.name); err != nil {
			return nil, errors.Join(err, r.Close())
		}
		info, err := (*one.file).Stat()
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		if one.size >= 0 && info.Size() != one.size {
			return nil, errors.Join(fmt.Errorf("%w: %s has %d bytes, it should have %d", errIndex, one.name,
				info.Size(), one.size), r.Close())
		}
	}
	if err := r.find(0); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}
