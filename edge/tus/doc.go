// Package tus takes resumable uploads: tus 1.0.0, the core protocol and the extensions creation, creation-defer-length, creation-with-upload,
// termination, checksum and expiration.
//
// An upload is two files in [Options].Dir, ID.data with what came and ID.json with what it is. ID.json is there exactly as long as the upload
// is: it is written last at the creation and removed first at the end. How much came is the size of ID.data and stands nowhere else, so no
// crash can make the two differ. Only a piece with a checksum is a promise that is not kept yet: while it comes, ID.json says from where on
// the bytes are unproved, and whoever opens the store after a crash cuts them off.
//
// An offset is told only after what stands before it was synced. A piece that is cut off in the middle keeps what came of it, except one with a
// checksum, which nobody can prove any more.
//
// One request writes to an upload at a time. Another gets 423, unless the first has been silent for [Options].Silence: then the connection is
// taken for dead, what it brought is kept, and the other takes its place. So a client whose network changed goes on after seconds, not after
// minutes.
//
// The application takes a whole upload with [Store.Take], copies or moves the file, and then removes it with [Store.Remove].
package tus
