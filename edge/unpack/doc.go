// Package unpack extracts untrusted archives: .zip .tar .tar.gz .tgz .tarz .tar.bz2 .tbz2 .gz
// .bz2.
//
// An archive is refused as a whole at the first entry that breaks a rule, and then nothing of it remains. Entries are
// written through os.Root under names that safename has accepted, so neither a name nor a link can lead outside.
// A link of a tar to a file of the same tar becomes a copy of that file, whose bytes count. Other links, devices,
// set-id files, sparse files, encrypted entries, overlapping entries and names that would collide are
// refused. The bytes that are written count, regardless of the headers. Modes, owners and times of the archive are
// not applied, and archives inside are kept as files.
package unpack
