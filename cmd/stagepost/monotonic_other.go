//go:build !unix

package main

// monotonic gives nothing here: there is no service manager that asks.
func monotonic() (usec int64, ok bool) { return 0, false }
