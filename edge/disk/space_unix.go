//go:build unix

package disk

import "golang.org/x/sys/unix"

// Space returns the bytes of dir's file system that are free for users other than root, and its size.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}
