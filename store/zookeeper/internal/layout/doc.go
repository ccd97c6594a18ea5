// Package layout has the nodes of a Merritt ingest queue: the paths, what each node holds, the states with their
// transitions, and the names of the entries of the queue. The source is the node layout of CDLUC3/mrt-zk, which Java
// and Ruby programs read and write too. The package does no network access.
//
// Data are UTF-8 without a trailing newline: decimal numbers, ids, or one compact JSON object. An object keeps the keys
// that this package has no field for, so that a rewrite loses nothing of another program. Readers accept what live data
// has and the writers of this package do not produce: see [JobStatus], [Space], [ParseEntry] and [Identifiers].
package layout
