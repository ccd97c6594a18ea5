package packaging

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/source"
)

// entry is a file of a package.
type entry struct {
	name   string // in the content of the package, with slashes
	size   int64
	sha256 string
	sha512 string
	file   *File  // that was gathered; nil: generated
	made   string // path in the directory of the package of a generated file
}

// The generated files of the content.
const (
	jobFile      = "metadata/job.json"
	courseFile   = "metadata/course.json"
	activityFile = "metadata/activity.json"
	peopleFile   = "metadata/people.csv"
	filesFile    = "metadata/files.csv"
	premisXML    = "metadata/premis.xml"
	premisJSON   = "metadata/premis.json"
	readmeFile   = "README.txt"
)

var generated = []string{jobFile, courseFile, activityFile, peopleFile, filesFile, premisXML, premisJSON, readmeFile}

// reserved are names of devices on Windows, in lower case. They cannot be unpacked there, with any extension.
var reserved = map[string]bool{"con": true, "prn": true, "aux": true, "nul": true}

// plan gives every gathered file its name in the content. Names are safe on all file systems, and differ in more than
// case or Unicode form. The result is sorted by name and does not depend on the order of the files.
func plan(activities []Activity, files []File) []entry {
	ordered := make([]*File, len(files))
	for i := range files {
		ordered[i] = &files[i]
	}
	slices.SortFunc(ordered, func(a, b *File) int {
		return cmp.Or(cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Path, b.Path))
	})
	names := source.Names{}
	for _, name := range generated {
		names.For("generated "+name, name)
	}
	folders := folders(activities)
	entries := make([]entry, len(ordered))
	for i, f := range ordered {
		name := path.Join(folders[f.Activity], short(f, safePath(cmp.Or(f.Name, f.Path))))
		entries[i] = entry{name: names.For(f.Path, name), size: f.Size, sha256: f.SHA256, sha512: f.SHA512, file: f}
	}
	sortEntries(entries)
	return entries
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
}

// folders gives the folder of each activity: none if there is only one activity.
func folders(activities []Activity) map[string]string {
	names, all := source.Names{"metadata": "generated"}, map[string]string{}
	ordered := slices.Clone(activities)
	slices.SortFunc(ordered, func(a, b Activity) int { return cmp.Compare(a.ID, b.ID) })
	for _, a := range ordered {
		if len(activities) > 1 {
			all[a.ID] = names.For(a.ID, source.SafeName(a.Module+"-"+a.ID))
		}
	}
	return all
}

// safePath makes each element of a path safe.
func safePath(name string) string {
	elements := strings.Split(name, "/")
	for i, e := range elements {
		e = source.SafeName(e)
		if stem, _, _ := strings.Cut(strings.ToLower(e), "."); reserved[stem] || device(stem) {
			e = "_" + e
		}
		elements[i] = e
	}
	return path.Join(elements...)
}

// maxPath is the length in bytes above which a name is replaced: storage locations keep keys of 900 bytes, of which the
// names of job and package take a part.
const maxPath = 500

// short replaces the folders of a name that is too long by one that is made of its path.
func short(f *File, name string) string {
	if len(name) <= maxPath {
		return name
	}
	sum := sha256.Sum256([]byte(f.Path))
	return path.Join("long-names", hex.EncodeToString(sum[:8]), path.Base(name))
}

// device reports whether a name is that of a port on Windows, such as com1.
func device(stem string) bool {
	return len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")) &&
		stem[3] >= '1' && stem[3] <= '9'
}
