package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/edge/disk"
	"github.com/stagepost/stagepost/job"
)

// StartError adds the next step to an error of a start: on a full disk, and in a data directory that this user cannot
// write. It returns other errors as they are.
func StartError(dir string, err error) error {
	var file *fs.PathError
	switch {
	case job.IsFull(err):
		free, _, unknown := disk.Space(dir)
		if unknown != nil {
			return fmt.Errorf("storage full: %w; free space and start the server again", err)
		}
		return fmt.Errorf("storage full: %s has %d bytes free; free space and start the server again", dir, free)
	case errors.Is(err, fs.ErrPermission) && errors.As(err, &file) && strings.HasPrefix(file.Path, dir):
		return cli.Usagef("data: %w (--data DIR names a directory that this user can write)", err)
	}
	return err
}
