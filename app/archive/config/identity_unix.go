//go:build unix

package archiveconfig

import (
	"fmt"
	"io/fs"
	"syscall"
)

// identity distinguishes a directory from another one at the same path.
func identity(info fs.FileInfo) string {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return fmt.Sprintf("%d-%d", s.Dev, s.Ino)
	}
	return ""
}
