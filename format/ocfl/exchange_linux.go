package ocfl

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// exchangeAt exchanges two directories in one step.
func exchangeAt(fromDir int, from string, toDir int, to string) error {
	err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("the file system cannot exchange two directories (%w): %w", errors.ErrUnsupported, err)
	}
	return err
}
