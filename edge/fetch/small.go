package fetch

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/stagepost/stagepost/internal/durable"
)

// inMemory reports whether the bytes are in memory, and no .part file has them: a small file is written once, under its
// final name. It has no record of its download either: after a crash it is fetched again.
func (p *partial) inMemory() bool { return p.file == nil && p.small }

// spill makes the .part file of bytes in memory, with their record, which replaces one without a .part file.
func (p *partial) spill() error {
	if err := p.root.MkdirAll(path.Dir(p.stem), 0o750); err != nil {
		return err
	}
	f, err := p.root.OpenFile(p.dataName(), os.O_RDWR|os.O_CREATE|os.O_TRUNC|durable.Plain, 0o640)
	if err != nil {
		return err
	}
	p.file, p.small = f, false
	if _, err := f.Write(p.bytes); err != nil {
		return err
	}
	p.bytes = nil
	return p.record()
}

// finishSmall writes the bytes in memory to the file, for the set to sync. Where there is a file already it is replaced
// at once: then done is false.
func (p *partial) finishSmall() (done bool, err error) {
	f, err := p.root.OpenFile(p.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|durable.Plain, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := f.Write(p.bytes); err != nil {
		return false, errors.Join(err, f.Close(), p.root.Remove(p.name))
	}
	return true, cmp.Or(p.set.File(f, p.size), p.set.Dir(path.Dir(p.name)))
}
