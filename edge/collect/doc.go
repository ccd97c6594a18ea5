// Package collect takes over what a hostile script left in a directory, as a ZIP, and ZIPs that came from elsewhere.
//
// Zip and ZipFile read a directory while its owner may still be changing it (partial results). Nothing is opened by a
// path: the walk goes down one name at a time through os.Root, looks at what a name stands for before it opens it,
// never follows a symbolic link, never waits for a FIFO, and reads a file only when the open file is the one it has looked
// at and is a regular one. So a directory that becomes a link between two calls leads nowhere. What cannot be taken is left
// out and told in the Manifest; a bad file never spoils the others. Nothing in the directory is changed: no chmod, no chown.
//
// What this cannot see: a hard link, or a directory that the script moved into its own, is an ordinary file there. A script
// that may link or move files that it may not read (see fs.protected_hardlinks in proc_sys_fs(5)) must be kept from them by
// the sandbox.
//
// Receive, Verify, Entry, Entries and Repack are for the other side. A ZIP counts only after Verify: its end, its directory,
// every entry's own header and the CRC of all data agree. Memory stays small in all of them, whatever the number of entries
// and their sizes: names and central directories are streamed, not held.
//
// Sources: spec/orchestrator.md 1.6, 2.5, W3, W4, W5; spec/reliability.md S3, S4, S9, J11; APPNOTE 6.3 of the ZIP format.
package collect
