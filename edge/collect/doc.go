// Package collect packs the directory of an untrusted script into a ZIP, and checks ZIPs from other machines.
//
// Zip and ZipFile read a directory that its owner may still change (partial results). They open nothing by a path:
// the walk descends one name at a time through os.Root and checks the type of a name before it opens it. It never
// follows a symbolic link and never waits for a FIFO. It reads a file only if the open file is the one that it
// checked and is a regular one. So a directory that becomes a link between two calls leads nowhere. Files that cannot
// be packed are omitted and listed in the Manifest; a bad file never affects the others. The directory is not
// changed: no chmod, no chown.
//
// Limits: a hard link, or a directory that the script moved into its own, is an ordinary file here. The sandbox must
// deny links and moves of files that the script may not read (see fs.protected_hardlinks in proc_sys_fs(5)).
//
// Receive, Verify, Entry, Entries and Repack are for the receiving side. A ZIP is valid only after Verify: its end,
// its directory, every entry's own header and the CRC of all data agree. Memory stays small in all of them, for any
// number of entries and any sizes: names and central directories are streamed.
//
// Source: APPNOTE 6.3 of the ZIP format.
package collect
