// Package tus receives resumable uploads: tus 1.0.0, the core protocol and the extensions creation,
// creation-defer-length, creation-with-upload, termination, checksum and expiration.
//
// An upload is two files in [Options].Dir: ID.data with its bytes and ID.json with its description. ID.json exists
// exactly as long as the upload: it is written last at the creation and removed first at the end. The offset is the
// size of ID.data and is not stored elsewhere, so a crash cannot make them inconsistent. The exception is a piece
// with a checksum: while it is received, ID.json states the offset from which bytes are unverified, and the next
// opening of the store after a crash truncates them.
//
// The offset in an answer covers only synced bytes. An interrupted piece keeps the bytes that arrived, except a piece
// with a checksum, which cannot be verified any more.
//
// One request writes to an upload at a time. Another gets 423, unless the first was silent for [Options].Silence:
// then its connection counts as lost, its bytes are kept, and the new request replaces it. So a client whose network
// changed continues after seconds, not after minutes.
//
// The application takes a complete upload with [Store.Take], copies or moves the file, and then removes it with
// [Store.Remove].
package tus
