// Package unpack takes archives of strangers apart: .zip .tar .tar.gz .tgz .tar.bz2 .tbz2 .gz .bz2.
//
// An archive is refused as a whole at the first entry that breaks a rule, and then nothing of it remains. Entries are
// written through os.Root under names that safename has passed, so neither a name nor a link can lead outside; links,
// devices, set-id files, sparse files, encrypted entries, overlapping entries and names that would collide are refused; bytes
// are counted as they are written, whatever the headers say. Modes, owners and times of the archive are not applied, and
// archives inside are left as files.
//
// Sources: spec/reliability.md S4; spec/merritt.md section 4 (Pending: containers).
package unpack
