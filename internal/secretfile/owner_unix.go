//go:build unix

package secretfile

import (
	"io/fs"
	"syscall"
)

// owner returns the user to whom a file belongs.
func owner(info fs.FileInfo) (uid int, ok bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, false
	}
	return int(stat.Uid), true
}
