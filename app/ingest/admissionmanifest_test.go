package ingest

import (
	"strings"
)

// Parts of the manifests of the cases.
const (
	objectProfile = "#%profile | http://uc3.cdlib.org/registry/ingest/manifest/mrt-ingest-manifest\n"
	objectHead    = "#%checkm_0.7\n" + objectProfile
	rowA          = "URL/a.txt | md5 | 2c1743a391305fbf367df8e4f069f9f9 | 5 |  | a.txt\n"
	rowB          = "URL/b.txt | sha256 | f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753 | 4 |  | " +
		"b.txt | text/plain\n"
	theEnd = "#%eof\n"
	whole  = objectHead + rowA + rowB + theEnd
)

var bothFiles = []string{"a.txt", "b.txt"}

func batchHead(name string) string {
	return "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/ingest/manifest/" + name + "\n"
}

// inUTF16 encodes a text of ASCII with a byte order mark.
func inUTF16(text string) string {
	var b strings.Builder
	b.WriteString("\xff\xfe")
	for _, c := range []byte(text) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

func manifestAdmissions() []admission {
	object := Submission{Type: TypeObjectManifest}
	asFile := Submission{Type: TypeFile, Filename: "kept.checkm"}
	kept := []string{"kept.checkm"}
	corrupt := CauseCorruptManifest
	all := []admission{
		{about: "a manifest as it should be", text: whole, want: admitted, files: bothFiles},
		{about: "the same with the type given", s: object, text: whole, want: admitted, files: bothFiles},
		{about: "line ends of Windows", text: strings.ReplaceAll(whole, "\n", "\r\n"), want: admitted,
			files: bothFiles},
		{about: "no line end after `#%eof`", text: strings.TrimSuffix(whole, "\n"), want: admitted, files: bothFiles},
		{about: "`#%EOF` in capitals", text: strings.Replace(whole, "#%eof", "#%EOF", 1), want: admitted,
			files: bothFiles},
		{about: "comments and blank lines between rows", text: objectHead + "# first\n\n" + rowA + "\n# second\n" +
			rowB + theEnd, want: admitted, files: bothFiles},
		{about: "no line `#%checkm_0.7`", text: objectProfile + rowA +
			theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "headers in another order", text: objectProfile + "#%checkm_0.7\n" + rowA +
			theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "an unknown header line", text: objectHead + "#%note | x\n" + rowA +
			theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "a comment before the header", text: "# made manually\n" + whole, want: admitted, files: bothFiles},
		{about: "blank lines before the header", text: "\n\n" + whole, want: admitted, files: bothFiles},
		{about: "a profile line without a bar", text: strings.Replace(whole, "#%profile |", "#%profile", 1),
			want: admitted, files: bothFiles},
		{about: "a profile line with two bars", text: strings.Replace(whole, "#%profile |", "#%profile | |", 1),
			want: admitted, files: bothFiles},
		{about: "the older URL of the profile", text: strings.Replace(whole, "ingest/manifest", "mrt", 1),
			want: admitted, files: bothFiles},
		{about: "two lines `#%eof`", text: whole + theEnd, want: admitted, files: bothFiles},
		{about: "two manifests in one file", text: objectHead + rowA + theEnd + objectHead + rowB +
			theEnd, want: admitted, files: bothFiles},
		{about: "two manifests in one file, the type given", s: object, text: objectHead + rowA + theEnd + "\n" +
			objectHead + rowB + theEnd, want: admitted, files: bothFiles},
		{about: "no header at all, the type given", s: object, text: rowA + rowB +
			theEnd, want: admitted, files: bothFiles},
		{about: "no header at all and no type", s: Submission{Filename: "rows.txt"}, text: rowA +
			theEnd, want: admitted, files: []string{"rows.txt"}},
		{about: "no header at all, no type, named `.checkm`", s: Submission{Filename: "rows.CHECKM"}, text: rowA +
			theEnd, want: corrupt, says: "#%profile | URL"},
		{about: "a manifest with the type `file`", s: asFile, text: whole, want: admitted, files: kept},
		{about: "a damaged manifest with the type `file`", s: asFile, text: objectHead +
			"x", want: admitted, files: kept},
		{about: "a manifest of an unknown profile", text: strings.Replace(whole, "mrt-ingest", "mrt-other", 1),
			want: corrupt, says: "expected the URL of mrt-ingest-manifest"},
		{about: "the same without a bar", text: strings.Replace(strings.Replace(whole, "mrt-ingest", "mrt-other", 1),
			"#%profile |", "#%profile", 1), want: corrupt, says: "submit it with the type file"},
		{about: "a manifest of an unknown profile, the type given", s: object,
			text: strings.Replace(whole, "mrt-ingest", "mrt-other",
				1), want: corrupt, says: "expected the URL of mrt-ingest-manifest"},
		{about: "a manifest for storage (`mrt-add-manifest`)",
			text: strings.Replace(whole, "ingest/manifest/mrt-ingest", "store/manifest/mrt-add",
				1), want: CauseWrongType, says: "cannot be ingested by itself"},
		{about: "the list of a container (`mrt-object-manifest`)", text: "#%profile | " +
			"http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest\na.txt\n#%eof\n", want: CauseWrongType,
			says: "mrt-object-manifest"},
		{about: "a profile line in capitals", text: strings.Replace(whole, "#%profile", "#%PROFILE", 1), want: corrupt,
			says: "expected #%profile | URL"},
		{about: "a profile line without a URL", text: "#%checkm_0.7\n#%profile |\n" + rowA +
			theEnd, want: corrupt, says: "expected the URL of a profile"},
		{about: "no profile line", text: "#%checkm_0.7\n" + rowA +
			theEnd, want: corrupt, says: "expected #%profile | URL before the first row"},
		{about: "no profile line, the type given", s: object, text: "#%checkm_0.7\n" + rowA +
			theEnd, want: corrupt, says: "expected #%profile | URL before the first row"},
		{about: "a manifest that begins with a byte order mark", text: "\ufeff" +
			whole, want: corrupt, says: "byte order mark"},
		{about: "a manifest in UTF-16", text: inUTF16(whole), want: corrupt, says: "save it as UTF-8"},
		{about: "a manifest in UTF-16, the type given", s: object, text: inUTF16(whole), want: corrupt,
			says: "found a NUL byte"},
		{about: "blanks before the first header line", text: "  " + whole, want: corrupt, says: "#%profile | URL"},
		{about: "cut after its first letters", text: "#%che", want: corrupt, says: "end of file"},
		{about: "cut after the first line", text: "#%checkm_0.7\n", want: corrupt, says: "end of file"},
		{about: "cut after the header", text: objectHead, want: corrupt, says: "found end of file"},
		{about: "cut after a row", text: objectHead + rowA, want: corrupt, says: "expected #%eof, found end of file"},
		{about: "cut within a row", text: objectHead + rowA + "URL/b.txt | sha2", want: corrupt,
			says: "expected #%eof"},
		{about: "cut within `#%eof`", text: objectHead + rowA + "#%eo", want: corrupt, says: "expected #%eof"},
		{about: "an empty file named `.checkm`", s: Submission{Filename: "x.checkm"}, want: corrupt,
			says: "found end of file"},
		{about: "an empty file, the type given", s: object, want: corrupt, says: "found end of file"},
		{about: "something else, the type given", s: object, text: "hello\n", want: corrupt, says: "expected"},
		{about: "a picture named `.checkm`", s: Submission{Filename: "x.checkm"}, text: "\x89PNG\r\n\x1a\n\x00",
			want: corrupt, says: "expected"},
		{about: "a blank line after `#%eof`", text: whole +
			"\n", want: corrupt, says: "after #%eof, found an empty line"},
		{about: "a row after `#%eof`", text: objectHead + rowA + theEnd + rowB +
			theEnd, want: corrupt, says: "after #%eof"},
		{about: "a second manifest after one without `#%eof`", text: objectHead + rowA + objectHead + rowB +
			theEnd, want: corrupt, says: "headers only before the first row"},
		{about: "a second manifest of another profile", text: objectHead + rowA + theEnd +
			batchHead("mrt-batch-manifest") + rowB + theEnd, want: corrupt, says: "as in the manifest before"},
		{about: "a second manifest that is cut", text: objectHead + rowA + theEnd + objectHead +
			rowB, want: corrupt, says: "found end of file"},
		{about: "no rows", text: objectHead + theEnd, want: CauseEmptyManifest, says: "the manifest names no file"},
		{about: "columns in another order", text: objectHead + "md5 | URL/a.txt\n" +
			theEnd, want: corrupt, says: "expected an http, https, ftp or file URL"},
		{about: "an unknown digest algorithm", text: objectHead + strings.Replace(rowA, "md5", "sha_256", 1) +
			theEnd, want: corrupt, says: "expected a digest algorithm"},
		{about: "a size that is no number", text: objectHead + strings.Replace(rowA, "| 5 |", "| 5 kB |", 1) +
			theEnd, want: corrupt, says: "expected a file size in bytes"},
		{about: "a row without a URL", text: objectHead + " | | | | | a.txt\n" +
			theEnd, want: corrupt, says: "has no URL"},
		{about: "one name twice", text: objectHead + rowA + rowA + theEnd, want: CauseDuplicateName, says: "duplicate"},
		{about: "a date that is none", text: objectHead + strings.Replace(rowA, "5 |  |", "5 | last week |", 1) +
			theEnd, want: warned, says: `found "last week"`, files: []string{"a.txt"}},
		{about: "bytes that are not UTF-8 in a comment", text: objectHead + "# caf\xe9\n" + rowA +
			theEnd, want: admitted},
		{about: "bytes that are not UTF-8 in a file name", text: objectHead +
			strings.Replace(rowA, "| a.txt", "| caf\xe9.txt", 1) + theEnd, want: CauseUnsafeName, says: "not UTF-8"},
		{about: "a module file of Environment Modules, which begins with `#%`", s: Submission{Filename: "gcc"},
			text: "#%Module1.0\nprepend-path PATH /opt\n", want: admitted, files: []string{"gcc"}},
		{about: "a shell script", s: Submission{Filename: "x.sh"}, text: "#!/bin/sh\n# hello\necho '#%checkm_0.7'\n",
			want: admitted, files: []string{"x.sh"}},
		{about: "a manifest named `.zip`", s: Submission{Filename: "x.zip"}, text: whole, want: CauseCorruptArchive,
			says: "x.zip"},
	}
	for _, c := range []admission{
		{about: "strict: two lines `#%eof`", text: whole + theEnd, want: corrupt, says: "expected"},
		{about: "strict: two manifests in one file", text: whole + whole, want: corrupt, says: "expected"},
		{about: "strict: no header at all, the type given", s: object, text: rowA +
			theEnd, want: corrupt, says: "before the first row"},
	} {
		c.profile = "strict"
		c.text = strings.ReplaceAll(c.text, "URL/", "https://example.org/")
		all = append(all, c)
	}
	return all
}

func batchAdmissions() []admission {
	row := "URL/one.checkm |  |  |  |  | one.checkm |  | LOCAL | A. Person | A title | 2009\n"
	file := strings.Replace(row, "one.checkm |  |  |  |  | one.checkm", "a.txt |  |  |  |  | a.txt", 1)
	of := func(local string) string { return strings.Replace(row, "LOCAL", local, 1) }
	ofFile := func(local string) string { return strings.Replace(file, "LOCAL", local, 1) }
	corrupt := CauseCorruptManifest
	head := batchHead("mrt-batch-manifest")
	return []admission{
		{about: "a batch manifest", text: head + of("batch-1") + theEnd, want: admitted, files: []string{"a.txt"},
			title: "A title"},
		{about: "a batch manifest whose profile line has no bar",
			text: strings.Replace(head, "profile |", "profile", 1) + of("batch-2") +
				theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "a batch manifest without a header, the type given", s: Submission{Type: TypeBatchManifest},
			text: of("batch-3") + theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "a batch of single files without a header, the type given", s: Submission{Type: TypeFileBatchManifest},
			text: ofFile("batch-4") + theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "a batch manifest with two lines `#%eof`", text: head + of("batch-5") + theEnd +
			theEnd, want: admitted, files: []string{"a.txt"}},
		{about: "a cut batch manifest", text: head + of("batch-6"), want: corrupt, says: "expected #%eof"},
		{about: "a batch manifest of no rows", text: head + theEnd, want: CauseEmptyManifest,
			says: "the manifest names no object"},
		{about: "a batch manifest given as an object manifest", s: Submission{Type: TypeObjectManifest}, text: head +
			of("batch-7") + theEnd, want: corrupt, says: "expected the URL of mrt-ingest-manifest"},
		{about: "an object manifest given as a batch manifest", s: Submission{Type: TypeBatchManifest}, text: whole,
			want: corrupt, says: "expected the URL of mrt-batch-manifest"},
		{about: "a batch manifest with the type `file`", s: Submission{Type: TypeFile, Filename: "b.checkm"},
			text: head + of("batch-8") + theEnd, want: admitted, files: []string{"b.checkm"}},
		{about: "a batch manifest whose row names a manifest that is cut", text: head +
			strings.ReplaceAll(of("batch-9"), "one.checkm", "odd.checkm") +
			theEnd, want: corrupt, says: "found end of file"},
		{about: "a row whose primary id is no ARK", text: head +
			strings.Replace(of("batch-10"), "| one.checkm |  | ", "| one.checkm | doi:10.1/x | ", 1) +
			theEnd, want: CauseBadIdentifier, says: "primary id"},
		{about: "a row without a URL in a batch", text: head +
			strings.Replace(of("batch-11"), "URL/one.checkm", "", 1) +
			theEnd, want: CauseBadRow, says: "the row names no URL"},
	}
}

func sizeAdmissions() []admission {
	of := func(digest, size string) string {
		return objectHead + "URL/a.txt | " + digest + " | " + size + " |  | a.txt\n" + theEnd
	}
	const right, wrong = "md5 | 2c1743a391305fbf367df8e4f069f9f9", "md5 | 00000000000000000000000000000000"
	list := "#%checkm_0.7\n#%profile | http://uc3.cdlib.org/registry/store/manifest/mrt-object-manifest\n"
	return []admission{
		{about: "a right digest and a wrong size", text: of(right, "7"), want: warned,
			says: "a.txt has 5 bytes, its manifest says 7; its digest is right.", files: []string{"a.txt"}},
		{about: "a right digest and a size that is too small", text: of(right, "3"), want: warned,
			says: "a.txt has 5 bytes, its manifest says 3", files: []string{"a.txt"}},
		{about: "a right digest and a size of 0", text: of(right, "0"), want: warned, says: "its manifest says 0",
			files: []string{"a.txt"}},
		{about: "a right digest and a negative size", text: of(right, "-7"), want: warned,
			says: `found "-7"`, files: []string{"a.txt"}},
		{about: "a wrong digest and a right size", text: of(wrong, "5"), want: CauseBadDigest, says: "a.txt"},
		{about: "neither digest nor size right", text: of(wrong, "7"), want: CauseBadSize, says: "a.txt"},
		{about: "a wrong size and no digest", text: of(" | ", "7"), want: CauseBadSize, says: "a.txt"},
		{about: "a digest without its algorithm", text: of(" | 2c1743a391305fbf367df8e4f069f9f9", "5"), want: admitted,
			files: []string{"a.txt"}},
		{about: "a container whose list has a wrong size and a right digest",
			zip: []string{"a.txt", "alpha", "mrt-manifest.txt", list + "a.txt | " + right + " | 9\n" +
				theEnd}, want: warned, says: "a.txt has 5 bytes, its manifest says 9"},
		{about: "the same in a strict profile", profile: "strict",
			zip: []string{"a.txt", "alpha", "mrt-manifest.txt", list + "a.txt | " + right + " | 9\n" +
				theEnd}, want: CauseMismatch, says: "a.txt has 5 bytes"},
		{about: "a container whose list has a wrong digest", zip: []string{"a.txt", "alpha", "mrt-manifest.txt", list +
			"a.txt | " + wrong + " | 5\n" + theEnd}, want: CauseMismatch, says: "a.txt"},
		{about: "a container whose list lacks a file",
			zip: []string{"a.txt", "alpha", "b.txt", "beta", "mrt-manifest.txt", list + "a.txt\n" +
				theEnd}, want: CauseMismatch, says: "b.txt is not in"},
	}
}
