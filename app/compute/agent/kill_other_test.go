//go:build !linux

package agent

// child is for Linux.
func child(string) {}
