package process

import (
	"os"
	"path/filepath"
)

// tempPrefix begins the names of directories that are made for commands.
const tempPrefix = "stagepost-command-"

// removeAll removes a directory, also one in which the command has removed the permission to write.
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
