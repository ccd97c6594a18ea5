// Package transfer copies the content of one store into another one, and compares the two. It defines what the content
// is; how a store keeps it is the store's. Packages sqlite and postgres implement [Target].
//
// Both stores have a [Mark] meanwhile. That of the target is [Unfinished] from before the first write until all was
// compared, and no server starts on it. That of the source is [Moved] afterwards, so that two servers never work on the
// two copies. A copy that was interrupted begins again: the target is cleared.
package transfer
