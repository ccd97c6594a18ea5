package sqlite

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// imageFile is what a disk may hold of a file.
type imageFile struct {
	there   bool // its name is on the disk
	durable []byte
	pending []diskOp
}

// image follows the log and builds what a power cut leaves.
type image struct {
	files map[string]*imageFile
}

func (im *image) follow(op diskOp) {
	f := im.files[op.file]
	if f == nil {
		f = &imageFile{}
		im.files[op.file] = f
	}
	if op.kind != 's' {
		f.pending = append(f.pending, op)
		return
	}
	if i := slices.IndexFunc(f.pending, func(op diskOp) bool { return op.kind == 'p' }); op.rest && i >= 0 {
		_, content := f.after(func() bool { return true })
		f.pending = append(f.pending[:i:i], diskOp{kind: 'p', file: op.file, data: content})
		return
	}
	f.there, f.durable = f.after(func() bool { return true })
	f.pending = nil
	if op.dir {
		for _, f := range im.files {
			f.forgetDeleted()
		}
	}
}

// forgetDeleted makes a deletion final: nothing of what was before it can come back.
func (f *imageFile) forgetDeleted() {
	for i := len(f.pending) - 1; i >= 0; i-- {
		if f.pending[i].kind == 'd' {
			f.there, f.durable, f.pending = false, nil, f.pending[i+1:]
			return
		}
	}
}

// after returns the content if the pending writes selected by keep reach the disk, sector by sector.
func (f *imageFile) after(keep func() bool) (there bool, content []byte) {
	there, content = f.there, append([]byte{}, f.durable...)
	for _, op := range f.pending {
		switch op.kind {
		case 'p':
			if keep() {
				there, content = true, append([]byte{}, op.data...)
			}
		case 'w':
			there = true
			for from := 0; from < len(op.data); {
				n := min(len(op.data)-from, sector-int(op.at+int64(from))%sector)
				if keep() {
					content = put(content, op.data[from:from+n], int(op.at)+from)
				}
				from += n
			}
		case 't':
			if keep() && int(op.at) < len(content) {
				content = content[:op.at]
			}
		case 'd':
			if keep() {
				there, content = false, nil
			}
		}
	}
	return there, content
}

func put(content, data []byte, at int) []byte {
	if need := at + len(data); need > len(content) {
		content = append(content, make([]byte, need-len(content))...)
	}
	copy(content[at:], data)
	return content
}

// write puts an image into a directory as a store's.
func (im *image) write(t *testing.T, dir string, keep func() bool) {
	t.Helper()
	names := []string{database, database + "-wal", database + "-shm", database + "-journal", headName}
	for name := range im.files {
		if strings.HasPrefix(name, logName) {
			names = append(names, name)
		}
	}
	slices.Sort(names[5:]) // the same random numbers each time
	for _, name := range names {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		f := im.files[name]
		if f == nil {
			f = &imageFile{}
		}
		if there, content := f.after(keep); there && err == nil {
			err = os.WriteFile(file, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// pattern chooses which sectors of the writes before a power cut reach the disk. begin is called for each image.
type pattern struct {
	name  string
	begin func() (keep func() bool)
}

// patterns are all lost, some sectors lost, and none lost.
func patterns(random *rand.Rand) []pattern {
	always := func(keep bool) func() func() bool {
		return func() func() bool { return func() bool { return keep } }
	}
	half := func() func() bool { return func() bool { return random.IntN(2) == 0 } }
	return []pattern{{"all lost", always(false)}, {"half lost", half}, {"none lost", always(true)}}
}

// torn is a tail that is lost after some sectors.
func torn(random *rand.Rand) pattern {
	return pattern{"torn", func() func() bool {
		left := 1 + random.IntN(12)
		return func() bool { left--; return left >= 0 }
	}}
}
