package joblog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Each calls do with each job that has a log and the time of the last write, ordered by folder, until do returns false.
// Other files are skipped. do may call Remove.
func (l *Logs) Each(do func(id job.ID, written time.Time) (goOn bool)) error {
	folders, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("job logs: %w", err)
	}
	for _, folder := range folders {
		if !folder.IsDir() || len(folder.Name()) != 2 {
			continue
		}
		files, err := os.ReadDir(filepath.Join(l.dir, folder.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("job logs: %w", err)
		}
		for _, f := range files {
			name, ok := strings.CutSuffix(f.Name(), ".log")
			path, err := l.path(job.ID(name))
			if !ok || err != nil || path != filepath.Join(l.dir, folder.Name(), f.Name()) {
				continue
			}
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
				continue
			}
			if err != nil {
				return fmt.Errorf("job logs: %w", err)
			}
			if !do(job.ID(name), info.ModTime()) {
				return nil
			}
		}
	}
	return nil
}
