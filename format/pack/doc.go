// Package pack creates archives whose bytes are computed, not stored: ZIP and TAR files of content that is not
// copied.
//
//	entries -> Planner -> a directory: plan.json, index, literals, sources
//	           Plan + Opener -> Reader: an io.ReadSeeker over the whole archive
//
// The writers of archive/zip and archive/tar write the headers. The plan keeps all bytes around the content as
// literals, and for the content only its position and its source. So the size and every byte of the archive are
// determined before the first read. A range in the middle costs no more than one at the beginning, and the same
// entries always give the same bytes.
//
//	offset 0                                                                            size
//	| header | content of a | padding, header | content of b | padding, directory, end |
//	  literal      hole            literal           hole              literal
//
// Content is not copied, so it may change between the plan and the read. A reader detects that: it compares the size
// when it opens a file. For each file that it reads from beginning to end it compares the CRC-32 before it returns
// the last bytes.
//
// Memory: a planner keeps about 300 bytes for each entry of a ZIP until it is closed, and none for a TAR. The memory
// of a reader does not grow with the number of entries.
package pack
