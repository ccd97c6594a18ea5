package process

import (
	"os"
	"path/filepath"
)

// tempPrefix begins the names of directories that are made for commands.
const tempPrefix = "stagepost-command-"

// removeAll removes a directory even if the command took the right to do so away from folders in it.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}
