//go:build unix

package durable

import "syscall"

// Plain is a flag for [os.OpenFile] and [os.Root.OpenFile] with names of regular files and directories. Package os
// tries to poll each file that it opens, and sets it to non-blocking mode and back for that, by four calls of fcntl(2).
// With the flag the file is in this mode already, which has no effect on regular files and directories (open(2)).
const Plain = syscall.O_NONBLOCK
