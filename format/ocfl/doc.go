// Package ocfl keeps versioned objects in an OCFL 1.1 storage root on a local directory
// (Oxford Common File Layout, https://ocfl.io/1.1/spec/).
//
// # What is the truth
//
// The inventory.json in an object's root directory names every version, every logical path and the digest of
// every stored file. A version exists from the moment in which that file names it, and not before:
//
//	<root>/0=ocfl_1.1                                       declaration of the storage root
//	<root>/ocfl_layout.json                                 0004-hashed-n-tuple-storage-layout
//	<root>/extensions/0004-.../config.json                  its parameters
//	<root>/extensions/stagepost-staging/<stage>/...         work of attempts that are under way; gone when they end
//	<root>/3c0/ff4/240/3c0ff4240c1e.../0=ocfl_object_1.1    an object, at the hash of its id
//	                                  /inventory.json       the truth
//	                                  /inventory.json.sha512
//	                                  /v1/inventory.json    what v1 knew; never changes
//	                                  /v1/inventory.json.sha512
//	                                  /v1/content/...       files that v1 brought
//
// # The order of AddVersion, and what a crash leaves
//
//  1. Everything is written below the stage and synced: files first, many at a time so that the file system can
//     join their journal commits, then the directories. Crash: a stage that the same call clears, or Sweep.
//  2. A new object is moved to its place by one rename, with the directories of the layout that are missing above
//     it: the commit. Crash before: as in 1. Crash after: the object is whole.
//  3. For an object that exists, under its lock and after its head was compared again:
//     a. the version directory is moved in. Crash after: a vN that no inventory knows; the next writer moves it out.
//     b. inventory.json is replaced by rename: the commit. Crash after: the sidecar is that of the version before.
//     The new inventory is proved by its byte-identical copy in vN and the sidecar there, so readers accept it and
//     the next writer replaces the sidecar. Without that proof nothing is repaired: the object is reported as corrupt.
//     c. the sidecar is replaced by rename.
//  4. The stage is removed.
//
// The directory is synced after each rename of 2 and 3, in 2 with all above it, so that a loss of power cannot change their order.
//
// # Who may write at the same time
//
// Any number of processes on one machine: an object's directory is locked (flock) while it changes, the stage while
// its attempt lives; the kernel gives both up when a process dies. Writers with equal Options.Key get one version.
package ocfl
