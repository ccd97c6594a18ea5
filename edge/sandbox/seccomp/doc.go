// Package seccomp has the filter of system calls for commands in a sandbox, on Linux.
package seccomp
