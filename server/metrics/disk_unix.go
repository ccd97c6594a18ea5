//go:build unix

package metrics

import "golang.org/x/sys/unix"

// diskSpace asks the file system of a directory: bytes free for those who are not root, and in all.
func diskSpace(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
