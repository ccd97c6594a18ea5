// Package tus receives resumable uploads: tus 1.0.0, the core protocol and the extensions creation,
// creation-defer-length, creation-with-upload, termination, checksum and expiration.
//
// An upload is two files in [Options].Dir: ID.data with its bytes and ID.json with its description. ID.json exists
// exactly as long as the upload: it is written last at the creation and removed first at the end. The offset is the
// size of ID.data and is not stored elsewhere, so a crash cannot make them inconsistent. The exception is a piece
// with a checksum: while it is received, ID.json states the offset from which bytes are unverified, and the next
// request after a crash truncates them.
//
// The offset in an answer covers only synced bytes. An interrupted piece keeps the bytes that arrived, except a piece
// with a checksum, which cannot be verified any more.
//
// One request writes to an upload at a time. Another gets 423, unless the first was silent for [Options].Silence:
// then its connection counts as lost, its bytes are kept, and the new request replaces it. So a client whose network
// changed continues after seconds, not after minutes.
//
// Several processes, also on several machines with a shared file system, may have a store on one directory. A request
// locks ID.data while it uses the upload, and then reads what other stores changed. So any store continues and gives
// any upload. A request that finds the lock taken gets 423 and leaves the file ID.yield. The writer at the other store
// checks for it, and ends as if both were at one store. The lock ends with its process. Creations take turns by the
// lock of the file named lock.
//
// The application takes a complete upload with [Store.Take], copies or moves the file, and then removes it with
// [Store.Remove].
package tus
