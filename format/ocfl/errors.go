package ocfl

import "errors"

// The kinds of error of this package; test with errors.Is.
var (
	// ErrInvalid: the arguments are invalid (a path, an id, a stage name). A repetition does not help.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound: the object, version or logical path does not exist.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the head is not the expected one, or the key belongs to a version with other files.
	ErrConflict = errors.New("conflict")
	// ErrBusy: another running attempt has the stage. A later call can succeed.
	ErrBusy = errors.New("busy")
	// ErrDigest: bytes differ from the digest or the size that was stated for them.
	ErrDigest = errors.New("digest mismatch")
	// ErrCorrupt: the files on disk break the specification in a way that no crash of this package causes.
	ErrCorrupt = errors.New("corrupt")
)
