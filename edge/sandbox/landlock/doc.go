// Package landlock restricts the file access of a process with Landlock, on Linux.
package landlock
