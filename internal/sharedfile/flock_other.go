//go:build !unix

package sharedfile

import "os"

// flock does nothing where there is no such lock: two edits at once may then lose one of them.
func flock(*os.File) error { return nil }
