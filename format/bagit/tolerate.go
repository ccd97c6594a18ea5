package bagit

import (
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// systemFiles are names of files and directories that operating systems add to directories, in lower case.
var systemFiles = map[string]bool{
	".ds_store": true, ".spotlight-v100": true, ".trashes": true, ".fseventsd": true, ".appledouble": true,
	".temporaryitems": true, ".volumeicon.icns": true, "__macosx": true, "thumbs.db": true, "ehthumbs.db": true,
	"desktop.ini": true, "$recycle.bin": true, "system volume information": true, ".directory": true,
}

// systemFile reports whether an operating system adds a payload file of this name by itself.
func systemFile(name string) bool {
	rest, ok := strings.CutPrefix(name, "data/")
	if !ok {
		return false
	}
	for element := range strings.SplitSeq(strings.ToLower(rest), "/") {
		if systemFiles[element] {
			return true
		}
	}
	return strings.HasPrefix(path.Base(name), "._")
}

// tolerate finds differences between manifests and files that file systems and operating systems cause, and makes
// warnings of them:
//
//   - A manifest has a name in another Unicode form than the bag. RFC 8493 section 6.1.2 recommends to accept it.
//   - Before 1.0: a manifest has two names that differ only in case, with equal checksums, and the bag has one of them:
//     it was made on a file system that ignores case.
//   - Before 1.0: a file that an operating system adds was removed, or was added after the manifest was made.
//
// The checksums of a name that the bag does not have are compared with the file that replaces it.
func (v *validation) tolerate() {
	form, folded := map[string]string{}, map[string]string{}
	names := slices.Sorted(maps.Keys(v.files))
	for _, name := range names {
		if v.files[name].there {
			form[norm.NFC.String(name)] = name
			folded[fold(name)] = name
		}
	}
	for _, name := range names {
		f := v.files[name]
		system := systemFile(name)
		other, sameForm := form[norm.NFC.String(name)]
		switch {
		case f.there && system && v.old && len(f.want) == 0:
			f.tolerated = true
			v.added++
			v.odd(CodeSystem, name, "no manifest lists it; operating systems add files of this name")
		case f.there && system:
			v.odd(CodeSystem, name, "operating systems add files of this name")
		case f.there || f.fetch:
		case sameForm:
			v.odd(CodeCollision, name, "the bag has it as %q: the same name in another Unicode form", other)
			v.replace(f, other)
		case v.old && sameDigests(f, v.files[folded[fold(name)]]):
			v.odd(CodeCollision, name, "the bag has %q only, which differs in case and has the same checksum",
				folded[fold(name)])
			v.replace(f, folded[fold(name)])
		case v.old && system:
			f.tolerated = true
			v.absent++
			v.odd(CodeSystem, name, "it is missing; operating systems add and remove files of this name")
		}
	}
}

// fold gives equal texts for names that are equal on a file system which ignores case or Unicode forms.
func fold(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// replace makes the file of another name answer for one that the bag does not have.
func (v *validation) replace(missing *file, other string) {
	missing.tolerated = true
	v.absent++
	for _, s := range missing.want {
		if !slices.Contains(v.files[other].want, s) {
			v.files[other].want = append(v.files[other].want, s)
		}
	}
}

// sameDigests reports whether both files are listed, by the same manifests with the same checksums.
func sameDigests(a, b *file) bool {
	if b == nil || len(a.want) != len(b.want) {
		return false
	}
	for _, s := range a.want {
		same := func(t stated) bool { return t.manifest == s.manifest && strings.EqualFold(t.digest, s.digest) }
		if !slices.ContainsFunc(b.want, same) {
			return false
		}
	}
	return true
}

// explained reports whether the difference between the stated and the found number of files comes from what tolerate
// accepted.
func (v *validation) explained(found, stated oxum) bool {
	return v.absent+v.added > 0 && stated.files >= found.files-v.added && stated.files <= found.files+v.absent
}
