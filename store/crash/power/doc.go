// Package power cuts the power of a file system, in tests. [Mount] mounts a file system in memory that keeps apart
// what programs see and what is on the disk: the content of a file gets there by fsync of the file, a name by fsync
// of its directory, and nothing else does. [Disk.Image] writes what a power cut at that moment leaves to an ordinary
// directory, and with [Options.Every] each sync leaves such an image. [Options.Names] is the other extreme: names get
// to the disk by themselves, ahead of contents that were not synced.
//
// The file system is served by a process of its own, a copy of the test's program: a program that serves a file
// system to itself stops when its garbage collector waits for a thread that waits for the file system. So TestMain
// calls [Main] first.
package power
