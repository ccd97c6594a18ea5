// Package pack makes archives whose bytes are computed, not stored: ZIP and TAR files of content that stays where it lies.
//
//	entries -> Planner -> a directory: plan.json, index, literals, sources
//	           Plan + Opener -> Reader: an io.ReadSeeker over the whole archive
//
// The writers of archive/zip and archive/tar write the headers; what they write around the content is kept as literal bytes, and of the content
// only where it goes and where it comes from. So the exact size and every byte of the archive are known before anybody reads it, a range in its
// middle costs no more than one at its beginning, and the same entries give the same bytes at any time.
//
//	offset 0                                                                            size
//	| header | content of a | padding, header | content of b | padding, directory, end |
//	  literal      hole            literal           hole              literal
//
// Content is not copied, so it may change between the plan and the reading. A reader notices: it compares the size when it opens a file, and the
// CRC-32 of each file that it reads from beginning to end, before it gives away the last bytes of it.
//
// Memory: a planner keeps about 300 bytes for each entry of a ZIP until it is closed and nothing of a TAR; a reader keeps nothing that grows with the
// number of entries.
package pack
