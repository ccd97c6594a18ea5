package ocfl

import "errors"

// The kinds of error this package gives; test with errors.Is.
var (
	// ErrInvalid: the caller's arguments cannot be stored (a path, an id, a stage name). Trying again does not help.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: no such object, version or logical path.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the head is not the expected one, or the key belongs to a version with other files.
	ErrConflict = errors.New("conflict")
	// ErrBusy: another live attempt has the stage. Trying again later can help.
	ErrBusy = errors.New("busy")
	// ErrDigest: bytes differ from the digest or the size that was stated for them.
	ErrDigest = errors.New("digest mismatch")
	// ErrCorrupt: what is on disk breaks the specification in a way that no crash of this package leaves.
	ErrCorrupt = errors.New("corrupt")
)
