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

// Each gives the jobs that have logs and when these were last written, in order of their folders, until do states that
// it is enough. Files that are no logs are left out. do may call Remove.
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
