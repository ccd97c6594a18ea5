// Package ocfl keeps versioned objects in an OCFL 1.1 storage root on a local directory (Oxford Common File Layout,
// https://ocfl.io/1.1/spec/).
//
// # The authoritative file
//
// The inventory.json in an object's root directory lists every version, every logical path and the digest of every
// stored file. A version exists from the moment at which that file lists it, and not before:
//
//	<root>/0=ocfl_1.1                                       declaration of the storage root
//	<root>/ocfl_layout.json                                 0004-hashed-n-tuple-storage-layout
//	<root>/extensions/0004-.../config.json                  its parameters
//	<root>/extensions/stagepost-staging/<stage>/...         files of running attempts; removed when they end
//	<root>/3c0/ff4/240/3c0ff4240c1e.../0=ocfl_object_1.1    an object, at the hash of its id
//	                                  /inventory.json       the authoritative inventory
//	                                  /inventory.json.sha512
//	                                  /v1/inventory.json    the inventory as of v1; never changes
//	                                  /v1/inventory.json.sha512
//	                                  /v1/content/...       files that v1 added
//
// # The order of AddVersion, and the effects of a crash
//
//  1. Everything is written below the stage and synced: first the files, many at a time so that the file system can
//     combine their journal commits, then the directories. Crash: a stage remains, which the same call or Sweep
//     removes.
//  2. A new object is moved in by one rename, together with the missing directories of the layout above it. This is
//     the commit. Crash before: as in 1. Crash after: the object is complete.
//  3. An existing object is changed under its lock, after its head was compared again:
//     a. The version directory is moved in. Crash after: a vN that no inventory lists; the next writer moves it out.
//     b. inventory.json is replaced by rename: the commit. Crash after: the sidecar is that of the previous version.
//     The byte-identical copy in vN and its sidecar prove the new inventory, so readers accept it and the next
//     writer replaces the sidecar. Without that proof nothing is repaired: the object is reported as corrupt.
//     c. The sidecar is replaced by rename.
//  4. The stage is removed.
//
// The directory is synced after each rename of 2 and 3, and in 2 also its parents. So a power failure cannot change
// the order of the renames.
//
// # Removal
//
// RemoveObject moves an object into the stage by one rename, the commit, and removes it there. RemoveVersions makes the
// object anew in the stage, without some versions, and exchanges it for the old one in one step, the commit. Crash: the
// object is the old one or the new one; the rest is in the stage, which the same call or Sweep removes, together with
// empty directories of the layout.
//
// # Concurrent writers
//
// Any number of processes on one machine may write. An object's directory is locked (flock) while it changes, and the
// stage while its attempt runs. The kernel releases both locks when a process ends. Writers with equal Options.Key
// create one version.
package ocfl
