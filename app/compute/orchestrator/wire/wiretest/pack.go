package wiretest

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// pack makes the ZIP of a directory as the original's client does: everything, with the inputs; a link to a file inside
// as a copy; and a fault as soon as one entry cannot be read. With self the archive has a copy of its own beginning,
// since the original makes it inside the directory. A fault comes after that many entries, if it is not 0; the archive
// is closed properly even then, which is how the original comes to serve it later.
func pack(dir string, self bool, fault int) ([]byte, error) {
	var out bytes.Buffer
	entries := 0
	z := zip.NewWriter(&out)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		if entries++; fault > 0 && entries > fault {
			return errors.New("a fault was asked for")
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := z.Create(filepath.ToSlash(name) + "/")
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		w, err := z.Create(filepath.ToSlash(name))
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err == nil && self {
		z.Flush()
		sofar := bytes.Clone(out.Bytes())
		if w, e := z.Create("output.zip"); e == nil {
			w.Write(sofar)
		}
	}
	if e := z.Close(); err == nil {
		err = e
	}
	return out.Bytes(), err // what was written before the fault is there too
}
