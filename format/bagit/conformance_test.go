package bagit_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stagepost/stagepost/format/bagit"
)

// conformance are bags by the names of cases in the BagIt conformance suite of the Library of Congress
// (github.com/LibraryOfCongress/bagit-conformance-suite). The contents are our own.
//
//	version -> category -> name -> bag
type conformance map[string]map[string]map[string]bag

// bagOf097 is a bag of version 0.97 with an md5 manifest: payload by name below data/, lines that the manifest has
// besides, and tag files.
func bagOf097(payload bag, more string, tags bag) bag {
	b := bag{"bagit.txt": "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n"}
	var manifest strings.Builder
	for _, name := range slices.Sorted(maps.Keys(payload)) {
		b["data/"+name] = payload[name]
		fmt.Fprintf(&manifest, "%s  data/%s\n", md5Of(payload[name]), name)
	}
	b["manifest-md5.txt"] = manifest.String() + more
	maps.Copy(b, tags)
	return b.tagged(md5Of, "md5")
}

// tagged adds a tag manifest.
func (b bag) tagged(sum func(string) string, algorithm string) bag {
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if !strings.HasPrefix(name, "data/") && !strings.HasPrefix(name, "tagmanifest") {
			fmt.Fprintf(&lines, "%s  %s\n", sum(b[name]), name)
		}
	}
	return b.edit(bag{"tagmanifest-" + algorithm + ".txt": lines.String()})
}

// inEncoding converts the tag files but bagit.txt, and declares the encoding.
func (b bag) inEncoding(name string, convert func(string) string) bag {
	c := bag{}
	for path, text := range b {
		if !strings.HasPrefix(path, "data/") && path != "bagit.txt" && !strings.HasPrefix(path, "tagmanifest") {
			text = convert(text)
		}
		c[path] = text
	}
	c["bagit.txt"] = "BagIt-Version: 0.97\nTag-File-Character-Encoding: " + name + "\n"
	c = c.tagged(md5Of, "md5")
	c["tagmanifest-md5.txt"] = convert(c["tagmanifest-md5.txt"])
	return c
}

func latin1(text string) string {
	var out []byte
	for _, r := range text {
		out = append(out, byte(r))
	}
	return string(out)
}

// utf16Text converts to UTF-16: mark adds a byte order mark.
func utf16Text(little, mark bool) func(string) string {
	return func(text string) string {
		units := utf16.Encode([]rune(text))
		if mark {
			units = append([]uint16{0xfeff}, units...)
		}
		var out []byte
		for _, u := range units {
			if little {
				out = append(out, byte(u), byte(u>>8))
			} else {
				out = append(out, byte(u>>8), byte(u))
			}
		}
		return string(out)
	}
}

var someFiles = bag{"hello.txt": "hello\n", "dir/other.bin": "\x00\x01\x02"}

func sha1Of(text string) string { sum := sha1.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }

func valid097() map[string]bag {
	plain := bagOf097(someFiles, "", bag{"bag-info.txt": "Source-Organization: A library\nPayload-Oxum: 9.2\n"})
	german := bagOf097(bag{"größe.txt": "x"}, "", bag{"bag-info.txt": "Contact-Name: Jürgen Müller\n"})
	asian := bagOf097(bag{"大きさ.txt": "x"}, "", bag{"bag-info.txt": "Contact-Name: 山田\n"})
	dotted := plain.edit(bag{"manifest-md5.txt": strings.ReplaceAll(plain["manifest-md5.txt"], "  data", "  ./data")})
	info := func(text string) bag { return bagOf097(someFiles, "", bag{"bag-info.txt": text}) }
	return map[string]bag{
		"basic-bag":   plain,
		"minimal-bag": bag{"bagit.txt": plain["bagit.txt"], "data/.keep": ""}.listing(".keep"),
		"bag-in-a-bag": bagOf097(bag{"inner/bagit.txt": plain["bagit.txt"], "inner/manifest-md5.txt": "broken\n",
			"inner/data/x": "y"}, "", nil),
		"bag-with-encoded-names":                 bagOf097(bag{"100%25 %7E.txt": "x", "a%2Fb": "y"}, "", nil),
		"bag-with-escapable-characters":          escaped(),
		"bag-with-leading-dot-slash-in-manifest": dotted.tagged(md5Of, "md5"),
		"bag-with-space":                         bagOf097(bag{"with  spaces .txt": "x", " first": "y"}, "", nil),
		"duplicate-metadata-entries": info(
			"Contact-Name: One\nContact-Name: Two\nContact-Name: One\nPayload-Oxum: 9.2\n"),
		"holey-bag": bagOf097(someFiles, "", bag{"fetch.txt": "http://localhost/hello.txt 6 data/hello.txt\n" +
			"http://localhost/other.bin - data/dir/other.bin\n"}),
		"uncommon-metadata-separators": info(
			"Contact-Name:One\nContact-Email\t:\tone@example.org\nExternal-Description :  first\n  second\n\tthird\n"),
		"ISO-8859-1-encoded-tag-files": german.inEncoding("ISO-8859-1", latin1),
		"UTF-16-encoded-tag-files":     asian.inEncoding("UTF-16BE", utf16Text(false, false)),
		// not in the suite
		"UTF-16 with a mark":         asian.inEncoding("UTF-16", utf16Text(true, true)),
		"UTF-16 without a mark":      asian.inEncoding("utf-16", utf16Text(false, false)),
		"UTF-16LE":                   asian.inEncoding("UTF-16LE", utf16Text(true, false)),
		"UTF-16BE with a mark":       asian.inEncoding("UTF-16BE", utf16Text(false, true)),
		"sha1 beside md5":            sha1Beside(plain),
		"tag directory":              bagOf097(someFiles, "", bag{"meta/notes.txt": "any text: \n : x"}),
		"upper case of the encoding": german.inEncoding("iso-8859-1", latin1),
	}
}

// listing lists one payload file.
func (b bag) listing(name string) bag {
	return b.edit(bag{"manifest-md5.txt": md5Of(b["data/"+name]) + "  data/" + name + "\n"})
}

// escaped has a file whose name has line ends, which 0.97 encodes, and a percent sign, which it does not.
func escaped() bag {
	b := bagOf097(bag{"plain": "x"}, md5Of("odd")+"  data/line%0Aend%0D 50%.txt\n", nil)
	b["data/line\nend\r 50%.txt"] = "odd"
	return b.tagged(md5Of, "md5")
}

// sha1Beside adds a manifest that lists one of the files, which is enough before 1.0.
func sha1Beside(b bag) bag {
	return b.edit(bag{"manifest-sha1.txt": sha1Of(b["data/hello.txt"]) + "  data/hello.txt\n"}).tagged(md5Of, "md5")
}

func invalid097() map[string]bag {
	plain := bagOf097(someFiles, "", bag{"bag-info.txt": "Source-Organization: A library\n"})
	version := strings.Replace(plain["bagit.txt"], "0.97", ".97", 1)
	declared := func(text string) bag { return plain.edit(bag{"bagit.txt": text}).tagged(md5Of, "md5") }
	line := func(path string) bag { return bagOf097(someFiles, md5Of("x")+"  "+path+"\n", nil) }
	fetch := func(path string) bag {
		return bagOf097(someFiles, md5Of("x")+"  "+path+"\n", bag{"fetch.txt": "http://localhost/x 1 " + path + "\n"})
	}
	return map[string]bag{
		"baginfo-missing-encoding":                             declared("BagIt-Version: 0.97\n"),
		"bom-in-bagit.txt":                                     declared("\ufeff" + plain["bagit.txt"]),
		"corrupt-data-file":                                    plain.edit(bag{"data/hello.txt": "hallo\n"}),
		"corrupt-tag-file":                                     plain.edit(bag{"bag-info.txt": "Contact-Name: X\n"}),
		"extra-file-in-bag":                                    plain.edit(bag{"data/bar": "x"}),
		"invalid-version-number":                               declared(version),
		"missing-baginfo":                                      plain.edit(bag{"bag-info.txt": ""}),
		"missing-bagit.txt":                                    plain.edit(bag{"bagit.txt": ""}),
		"out-of-scope-file-paths-using-dot-notation":           line("../../../README.md"),
		"out-of-scope-file-paths-using-dot-notation-for-fetch": fetch("../../../README.md"),
		"same-filename-listed-twice-with-different-hashes": bagOf097(someFiles,
			md5Of("hallo\n")+"  data/hello.txt\n", nil),
		// of the suite's folders for one operating system each
		"out-of-scope-file-paths-using-absolute-path":               line("/tmp/foo"),
		"out-of-scope-file-paths-using-absolute-path-for-fetch":     fetch("/tmp/foo"),
		"out-of-scope-file-paths-using-shortcut":                    line("~/foo"),
		"out-of-scope-file-paths-using-shortcut-for-fetch":          fetch("~/foo"),
		"out-of-scope-file-paths-using-shortcut-username":           line("~root/foo"),
		"out-of-scope-file-paths-using-shortcut-username-for-fetch": fetch("~root/foo"),
		"windows/out-of-scope-file-paths-using-absolute-path":       line(`C:\Windows\System32\x.exe`),
		"windows/out-of-scope-file-paths-using-shortcut":            line(`%HomeDrive%\Windows\x.exe`),
		"windows/out-of-scope-file-paths-using-unc":                 line(`\\?\UNC\server\x.exe`),
		"windows/out-of-scope-file-paths-using-unc-for-fetch":       fetch(`\\?\UNC\server\x.exe`),
		// controls of what is accepted with a warning
		"a path that leaves the bag and returns":        line("data/../../bag/data/hello.txt"),
		"a shortcut that returns":                       line("~/../data/hello.txt"),
		"two cases with different checksums":            bagOf097(someFiles, md5Of("x")+"  data/HELLO.txt\n", nil),
		"another case alone":                            plain.renamed("data/hello.txt", "data/HELLO.txt"),
		"two forms with different checksums":            normalization(md5Of("y")),
		"a missing file that resembles one of a system": line("data/Thumbs.db.txt"),
		"ISO-8859-1 that is declared as UTF-8":          undeclared(),
		"a missing system file and another":             systemFiles("Payload-Oxum: 9.9\n"),
	}
}

func (b bag) renamed(from, to string) bag {
	c := maps.Clone(b)
	c[to] = c[from]
	delete(c, from)
	return c
}

// undeclared has manifests in ISO-8859-1 under the declaration of UTF-8.
func undeclared() bag {
	b := bagOf097(bag{"größe.txt": "x"}, "", nil).inEncoding("ISO-8859-1", latin1)
	return b.edit(bag{"bagit.txt": "BagIt-Version: 0.97\nTag-File-Character-Encoding: UTF-8\n"})
}

const composed, decomposed = "N\u00fa\u00f1ez", "Nu\u0301n\u0303ez"

// normalization lists a name in two Unicode forms and has it in one; the second line states a checksum.
func normalization(second string) bag {
	return bagOf097(bag{composed: "x"}, second+"  data/"+decomposed+"\n", nil)
}

// systemFiles lists one file that an operating system removed, and has one that it added, and one that is listed.
func systemFiles(info string) bag {
	b := bagOf097(bag{"hello.txt": "hello\n", "dir/Thumbs.db": "abc"}, md5Of("")+"  data/.DS_Store\n",
		bag{"bag-info.txt": info})
	b["data/dir/desktop.ini"] = "added"
	return b
}

func warning097() map[string]bag {
	starred := bagOf097(someFiles, "", nil)
	return map[string]bag{
		"duplicate-file-with-different-case": bagOf097(someFiles, md5Of("hello\n")+"  data/HELLO.txt\n",
			bag{"bag-info.txt": "Payload-Oxum: 15.3\n"}),
		"filename-normalization": bagOf097(bag{composed: "x"}, "", nil).renamed("data/"+composed, "data/"+decomposed),
		"made-with-md5sum-tools": starred.edit(bag{
			"manifest-md5.txt": strings.ReplaceAll(starred["manifest-md5.txt"], "  ", " *./")}).tagged(md5Of, "md5"),
		"relative-path": bagOf097(someFiles, md5Of("x")+"  data/dir/../up.txt\n",
			bag{"data/up.txt": "x"}),
		"same-filename-listed-twice-with-different-normalization": normalization(md5Of("x")),
		"same-filename-listed-twice-with-the-same-hash": bagOf097(someFiles,
			strings.ToUpper(md5Of("hello\n"))+"  data/hello.txt\n", nil),
		"special-system-files": systemFiles("Payload-Oxum: 9.3\n"),
		// not in the suite
		"both cases are there":          bagOf097(bag{"a": "1", "A": "2"}, "", nil),
		"a system file that is listed":  bagOf097(bag{"x": "1", "._x": "2"}, "", nil),
		"a system file that is missing": bagOf097(someFiles, md5Of("")+"  data/sub/.DS_Store\n", nil),
	}
}

func conformanceBags(t *testing.T) conformance {
	basic := write(t, someFiles)
	twice := func(text string) bag {
		return basic.edit(bag{"manifest-sha256.txt": basic["manifest-sha256.txt"] +
			sha256Of(text) + "  data/hello.txt\n"}).sealed()
	}
	other := basic.renamed("data/hello.txt", "data/HELLO.txt")
	return conformance{
		"0.97": {"valid": valid097(), "invalid": invalid097(), "warning": warning097()},
		"1.0": {
			"valid": {"basicBag": basic},
			"invalid": {
				"bagit-with-invalid-whitespace": basic.edit(bag{
					"bagit.txt": "BagIt-Version : 1.0\nTag-File-Character-Encoding: UTF-8\n"}).sealed(),
				"missing-from-manifest":                            basic.edit(bag{"data/missing.txt": "x"}),
				"same-filename-listed-twice-with-different-hashes": twice("x"),
				"same-filename-listed-twice-with-the-same-hash":    twice("hello\n"),
				// not in the suite
				"a system file that is not listed": basic.edit(bag{"data/.DS_Store": "x"}),
				"another case":                     other,
				"a relative path": basic.edit(bag{"manifest-sha256.txt": strings.ReplaceAll(
					basic["manifest-sha256.txt"], "data/hello", "data/dir/../hello")}).sealed(),
			},
			"warning": {
				"another Unicode form": write(t, bag{composed: "x"}).renamed("data/"+composed, "data/"+decomposed),
				"a system file":        write(t, bag{"Thumbs.db": "x", "a": "y"}),
			},
		},
	}
}

// TestConformance validates the cases as directories, ZIP and TAR files.
func TestConformance(t *testing.T) {
	for version, categories := range conformanceBags(t) {
		for category, bags := range categories {
			for name, b := range bags {
				t.Run(version+"/"+category+"/"+name, func(t *testing.T) {
					for _, form := range forms {
						check(t, form, category, validate(t, save(t, form, b)))
					}
				})
			}
		}
	}
}

func check(t *testing.T, form, category string, r *bagit.Report) {
	t.Helper()
	if r.Valid() == (category == "invalid") {
		t.Errorf("%s: got errors %v, warnings %v", form, r.Errors, r.Warnings)
	}
	if category == "warning" && len(r.Warnings) == 0 {
		t.Errorf("%s: there is no warning", form)
	}
}
