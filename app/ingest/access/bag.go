package access

import (
	"bufio"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path"

	"github.com/stagepost/stagepost/format/bagit"
	"github.com/stagepost/stagepost/format/pack"
	"github.com/stagepost/stagepost/internal/durable"
)

// beginBag begins the manifests. They are files of the plan: they grow with the number of files, and not with their
// size.
func (t *task) beginBag() error {
	if err := t.dir.Mkdir(tagsName, 0o750); err != nil {
		return err
	}
	var err error
	t.bag, err = bagit.NewWriter(func(name string) (io.WriteCloser, error) {
		f, err := t.dir.OpenFile(path.Join(tagsName, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
		if err != nil {
			return nil, err
		}
		return &tagFile{bufio.NewWriterSize(f, 64<<10), f}, nil
	}, bagit.SHA512, bagit.SHA256)
	return err
}

// tagFile is on disk when it is closed.
type tagFile struct {
	*bufio.Writer
	f *os.File
}

func (t *tagFile) Close() error { return errors.Join(t.Flush(), t.f.Sync(), t.f.Close()) }

// endBag writes the other tag files and plans their entries, behind the payload. What stands in them follows from the
// version alone, so that a bag of it is the same at any time.
func (t *task) endBag() error {
	tags, err := t.bag.Close(
		bagit.Field{Label: "External-Identifier", Value: t.spec.ARK},
		bagit.Field{Label: "External-Description", Value: fmt.Sprintf("version %d", t.spec.Version)},
		bagit.Field{Label: "Bag-Group-Identifier", Value: t.spec.Collection},
		bagit.Field{Label: "Bagging-Date", Value: t.data.Modified.UTC().Format("2006-01-02")},
		bagit.Field{Label: "Bag-Software-Agent", Value: "stagepost"},
	)
	if err != nil {
		return err
	}
	for _, tag := range tags {
		crc, err := t.sum(tag.Name)
		if err != nil {
			return err
		}
		err = t.plan.Add(pack.Entry{
			Name: path.Join(t.spec.Name,
				tag.Name), Size: tag.Size, CRC32: crc, Digest: tag.Digests[0], Mode: 0o644, Modified: t.data.Modified,
			Source: source{Tag: tag.Name}.String(),
		})
		if err != nil {
			return err
		}
	}
	dir, err := t.dir.OpenRoot(tagsName)
	if err != nil {
		return err
	}
	return errors.Join(durable.SyncIn(dir, "."), dir.Close())
}

// sum gives the CRC-32 of a tag file.
func (t *task) sum(name string) (uint32, error) {
	f, err := t.dir.Open(path.Join(tagsName, name))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	crc := crc32.NewIEEE()
	_, err = io.CopyBuffer(crc, struct{ io.Reader }{f}, t.buffer)
	return crc.Sum32(), err
}
