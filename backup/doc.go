// Package backup makes backups of a data directory while a server works on it, and restores them. It copies files
// and does not read them: the caller gives the list of entries ([Entry]) and the functions that stop commits and copy
// databases ([Source]).
//
// # One moment
//
// While commits wait (Source.Freeze), all databases are pinned, the one with the records first, and every file of an
// entry of kind [Linked] gets a second name by a hard link in DATA/snapshot; the smallest are copied there, as locks
// and counters are written in place. Then commits continue, and everything is copied while they run. A record is
// committed after the files that it refers to are written, and files are removed after the commit that allows it. The
// set therefore is what a crash at that moment leaves: no record refers to a file that is missing, and files that no
// record names are removed as after a crash. Entries of kind [Stored] (OCFL storage roots) are copied afterwards: what
// is stored is never changed, and versions that the pinned databases do not have are left out. Entries of kind [Late]
// are copied afterwards, too: records do not depend on them.
//
// # A set
//
//	NAME/manifest.json         what this is; written last
//	NAME/manifest.json.sha256  its digest
//	NAME/files.jsonl           every file, directory and link with size and SHA-256; its digest is in manifest.json
//	NAME/data/...              the data directory
//	NAME/outside/...           configuration that lies elsewhere: tokens, profiles, services
//
// A set is made under another name and renamed at the end: a set that has its name in the backup directory is complete.
package backup
