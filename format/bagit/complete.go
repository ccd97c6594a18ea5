package bagit

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	versionLine  = regexp.MustCompile(`^BagIt-Version *: *([0-9]+\.[0-9]+)$`)
	encodingLine = regexp.MustCompile(`^Tag-File-Character-Encoding *: *([^ ]+)$`)
)

// knownVersions are the versions that this package supports.
var knownVersions = []string{"0.93", "0.94", "0.95", "0.96", "0.97", "1.0"}

// declaration checks bagit.txt (RFC 8493 section 2.1.1).
func (v *validation) declaration() {
	text, ok := v.tags["bagit.txt"]
	if !ok {
		v.wrong(CodeDeclaration, "bagit.txt", "it is missing: this is not a bag")
		return
	}
	if bytes.HasPrefix(text, []byte("\ufeff")) {
		v.wrong(CodeDeclaration, "bagit.txt", "it begins with a byte order mark")
		text = text[3:]
	}
	var found []string
	for _, line := range lines(bytes.NewReader(text)) {
		found = append(found, line)
	}
	if len(found) != 2 {
		v.wrong(CodeDeclaration, "bagit.txt", "it has %d lines, not two", len(found))
		found = append(found, "", "")
	}
	if m := versionLine.FindStringSubmatch(found[0]); m != nil {
		v.Version = m[1]
	} else {
		v.wrong(CodeDeclaration, "bagit.txt", "its first line is not BagIt-Version: M.N")
	}
	encoding := "UTF-8"
	if m := encodingLine.FindStringSubmatch(found[1]); m == nil {
		v.wrong(CodeDeclaration, "bagit.txt", "its second line is not Tag-File-Character-Encoding: ENCODING")
	} else {
		encoding = m[1]
	}
	v.old = strings.HasPrefix(v.Version, "0.")
	v.encode(encoding)
	if v.Version != "" && !slices.Contains(knownVersions, v.Version) {
		v.odd(CodeDeclaration, "bagit.txt", "version %s is unknown: the rules of 1.0 are applied", v.Version)
	}
	if !v.old && v.Version != "" && (strings.Contains(found[0], " :") || !strings.Contains(found[0], ": "+v.Version)) {
		v.wrong(CodeDeclaration, "bagit.txt", "its first line is not exactly BagIt-Version: %s", v.Version)
	}
}

// manifests reads the manifests of payload and tag files.
func (v *validation) manifests() {
	payload, known := 0, 0
	for _, name := range slices.Sorted(maps.Keys(v.tags)) {
		algorithm, tag := manifestOf(name), false
		if algorithm == "" {
			algorithm, tag = tagManifestOf(name), true
		}
		if algorithm == "" {
			continue
		}
		if !tag {
			payload++
		}
		if algorithms[algorithm] == nil {
			v.odd(CodeAlgorithm, name, "the algorithm %q is unknown: the manifest was not checked", algorithm)
			continue
		}
		if !tag {
			known++
			v.Algorithms = append(v.Algorithms, algorithm)
		}
		v.manifest(name, algorithm, tag)
	}
	switch {
	case payload == 0:
		v.wrong(CodeManifest, "", "there is no payload manifest")
	case known == 0:
		v.wrong(CodeAlgorithm, "", "no payload manifest uses a supported algorithm: nothing was checked")
	}
}

func (v *validation) manifest(name, algorithm string, tag bool) {
	seen := map[string]string{}
	for line, err := range Manifest(v.text(name), algorithm, v.old) {
		if err != nil {
			v.wrong(CodeManifest, name, "%v", err)
			continue
		}
		if line = v.normalized(name, line); line.Path == "" {
			continue
		}
		inPayload := strings.HasPrefix(line.Path, "data/")
		switch before, twice := seen[line.Path]; {
		case twice && (!v.old || !strings.EqualFold(before, line.Digest)):
			v.wrong(CodeDuplicate, line.Path, "%s lists it twice", name)
			continue
		case twice:
			v.odd(CodeDuplicate, line.Path, "%s lists it twice", name)
			continue
		case !tag && !inPayload:
			v.wrong(CodeManifest, line.Path, "%s lists it, but it is not in the payload", name)
			continue
		case tag && (inPayload || tagManifestOf(line.Path) != ""):
			v.wrong(CodeTagManifest, line.Path, "%s must not list it", name)
			continue
		}
		seen[line.Path] = line.Digest
		f := v.files[line.Path]
		if f == nil {
			f = &file{}
			v.files[line.Path] = f
		}
		f.want = append(f.want, stated{algorithm, line.Digest, name})
	}
	if tag && !v.old {
		for _, m := range slices.Sorted(maps.Keys(v.tags)) {
			if manifestOf(m) != "" && seen[m] == "" {
				v.wrong(CodeTagManifest, m, "%s does not list it", name)
			}
		}
	}
}

// normalized warns of unusual forms of a path and removes them. For an unsafe path it reports an error and returns an
// empty path.
func (v *validation) normalized(name string, line Line) Line {
	if line.Star {
		v.odd(CodeManifest, line.Path, "line %d of %s has an asterisk before the path, as md5sum writes it",
			line.Number, name)
	}
	if line.Dot {
		v.odd(CodeManifest, line.Path, "line %d of %s has ./ before the path", line.Number, name)
	}
	why := unsafe(line.Path)
	if why == "" {
		return line
	}
	if clean := path.Clean(line.Path); v.old && why == notClean && unsafe(clean) == "" {
		v.odd(CodeManifest, line.Path, "line %d of %s: %s; it means %q", line.Number, name, why, clean)
		line.Path = clean
		return line
	}
	v.wrong(CodeUnsafe, line.Path, "line %d of %s: %s", line.Number, name, why)
	line.Path = ""
	return line
}

// fetches reads fetch.txt (RFC 8493 section 2.2.3). A listed file that does not exist makes the bag incomplete.
func (v *validation) fetches() {
	for f, err := range fetches(v.text("fetch.txt"), v.old) {
		if err != nil {
			v.wrong(CodeFetch, "fetch.txt", "%v", err)
			continue
		}
		if why := unsafe(f.Path); why != "" {
			v.wrong(CodeUnsafe, f.Path, "line %d of fetch.txt: %s", f.Number, why)
			continue
		}
		known := v.files[f.Path]
		switch {
		case !strings.HasPrefix(f.Path, "data/"):
			v.wrong(CodeFetch, f.Path, "fetch.txt lists it, but it is not in the payload")
		case known == nil || len(known.want) == 0:
			v.wrong(CodeFetch, f.Path, "fetch.txt lists it, but no manifest does")
		case known.there && f.Size >= 0 && known.size != f.Size:
			v.wrong(CodeFetch, f.Path, "it has %d bytes, fetch.txt states %d", known.size, f.Size)
		default:
			known.fetch = true
		}
	}
}

// info checks bag-info.txt and its Payload-Oxum (RFC 8493 section 2.2.2).
func (v *validation) info() {
	fields, err := readInfo(v.text("bag-info.txt"))
	if err != nil {
		v.wrong(CodeInfo, "bag-info.txt", "%v", err)
	}
	n := 0
	for _, f := range fields {
		if !strings.EqualFold(f.Label, oxumLabel) {
			continue
		}
		if n++; n > 1 {
			v.odd(CodeInfo, "bag-info.txt", "%s occurs twice", oxumLabel)
		}
		want, err := parseOxum(f.Value)
		if err != nil {
			v.wrong(CodeOxum, "bag-info.txt", "%s: %v", oxumLabel, err)
			continue
		}
		if got := (oxum{v.Bytes, v.Files}); got != want {
			report := v.wrong
			if v.explained(got, want) {
				report = v.odd
			}
			report(CodeOxum, "bag-info.txt", "the payload has %d bytes in %d files, %s states %s", got.bytes,
				got.files, oxumLabel, want)
		}
	}
}

// complete compares the files that the manifests list with the files of the bag (RFC 8493 section 3).
func (v *validation) complete() {
	for _, name := range slices.Sorted(maps.Keys(v.files)) {
		f := v.files[name]
		switch {
		case f.tolerated:
		case !f.there && f.fetch:
			v.wrong(CodeFetch, name, "it has not been fetched yet")
		case !f.there:
			v.wrong(CodeMissing, name, "%s lists it, but the bag does not have it", f.want[0].manifest)
		case strings.HasPrefix(name, "data/"):
			v.listed(name, f)
		}
	}
	if v.Files == 0 && !v.packed && !v.hasPayloadDir() {
		v.wrong(CodePayload, "", "there is no directory data")
	}
}

// listed checks that every manifest lists a payload file (since 1.0), or that one manifest does (before 1.0).
func (v *validation) listed(name string, f *file) {
	if len(f.want) == 0 && len(v.Algorithms) > 0 {
		v.wrong(CodeUnlisted, name, "it is in the payload, but no manifest lists it")
		return
	}
	if v.old {
		return
	}
	for _, a := range v.Algorithms {
		if !slices.ContainsFunc(f.want, func(s stated) bool { return s.algorithm == a }) {
			v.wrong(CodeUnlisted, name, "manifest-%s.txt does not list it", a)
		}
	}
}

// hasPayloadDir reports whether a bag in a directory has a directory data. For archives it returns true.
func (v *validation) hasPayloadDir() bool {
	d, ok := v.tree.(directory)
	if !ok {
		return true
	}
	info, err := d.root.Lstat("data")
	return err == nil && info.IsDir()
}
