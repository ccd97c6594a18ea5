//go:build !unix

package tus

import "os"

// tryLock has nothing to take here: the directory is for one store.
func tryLock(*os.File) (bool, error) { return true, nil }

// waitLock has nothing to take here either.
func waitLock(*os.File) error { return nil }
