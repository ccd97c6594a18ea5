package packaging

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/template"
	"time"
)

// readme is for a person who has nothing but the package.
var readme = template.Must(template.New("").Funcs(template.FuncMap{"day": day, "line": line}).Parse(
	`{{line .Name}}

WHAT THIS IS
An archive of a course{{with .Facts.Source.Name}} of {{line .}}{{end -}}
{{with .Facts.Source.URL}} ({{line .}}){{end}}.
It was made on {{day .Facts.Job.Packaged}} by {{line .Facts.Software.Name}} {{line .Facts.Software.Version -}}
{{with .Facts.Job.Organization}} for {{line .}}{{end}}.
Course:     {{line .Course}}
{{range .Facts.Activities}}Activity:   {{line .Name}} ({{line .Module}}, id {{line .ID}})
{{if .Drift}}            It changed while it was archived: parts may be of different times.
{{end}}{{range .Warnings}}            Not archived: {{line .}}
{{end}}{{end -}}
{{range .Facts.Excluded}}Left out:   {{line .Name}} ({{line .Module}}, id {{line .ID}}): {{line .Reason}}
{{end}}{{range .Facts.Warnings}}Warning:    {{line .}}
{{end}}Identifier: {{line .Facts.Job.Identifier}}
{{if .Facts.Job.RetainUntil.IsZero}}Keep it:    without a limit
{{else}}Keep until: {{day .Facts.Job.RetainUntil}}
{{end}}Content:    {{.Files}} files with {{.Bytes}} bytes
Names are in UTF-8. All times are in UTC. No program but those named below is needed to read it.

HOW IT IS LAID OUT
{{if .Bag}}bagit.txt, bag-info.txt       this is a bag: BagIt 1.0, RFC 8493
manifest-sha256.txt, -sha512  a checksum of every file in data/
tagmanifest-*.txt             checksums of the files beside data/
{{end}}{{.Root}}attempts/, {{.Root}}submissions/, other folders
                              what was archived; HTML pages open in any browser
{{.Root}}backups/                 backups of the course system (.mbz: a tar.gz or ZIP file)
{{.Root}}metadata/job.json        the job and all its settings
{{.Root}}metadata/course.json     the course
{{.Root}}metadata/activity.json   the activities, their folders, and their fingerprints
{{.Root}}metadata/people.csv      the people whose data this is
{{.Root}}metadata/files.csv       every file: its original name, origin, person and checksum
{{.Root}}metadata/premis.xml      what happened to the files: PREMIS 3 (premis.json has the same)
{{if gt (len .Facts.Activities) 1}}With several activities each one has a folder, which metadata/activity.json names.
{{end}}A name that is not safe on every system was changed; files.csv has the original one
(percent-encoded, where it has a percent sign, a line break or bytes that are not UTF-8).

HOW TO VERIFY IT
{{if .Bag}}In the folder that has this file, with the tools of any Linux or macOS:
  sha256sum -c manifest-sha256.txt        (macOS: shasum -a 256 -c manifest-sha256.txt)
  sha256sum -c tagmanifest-sha256.txt
Every line ends with OK. Files in data/ that no manifest lists are not part of the archive.
On Windows, Get-FileHash FILE in PowerShell prints the checksum of one file, to be compared with its line.
With a BagIt tool, for instance bagit-python of the Library of Congress:
  bagit.py --validate .
If the archive came as one file (tar.gz, tar or zip), its checksum is stored beside it:
  sha256sum -c {{.Name}}.tar.gz.sha256
If the archive was signed, a time stamp (RFC 3161) is stored beside it: tagmanifest-sha512.txt existed at that time.
It has the checksums of the manifests, and these have those of all files. With OpenSSL:
  openssl ts -verify -data tagmanifest-sha512.txt -in {{.Name}}.tagmanifest-sha512.txt.tsr -CAfile ROOT.pem
ROOT.pem is the certificate of an authority that you trust. {{.Name}}.tagmanifest-sha512.txt.pem
has those of the signer and of its authority. Later time stamps renew the first one; their names have a number.
{{else}}This is a version of an OCFL 1.1 object (https://ocfl.io/1.1/spec/). In the folder of the object:
  sha512sum inventory.json                must be the checksum in inventory.json.sha512
inventory.json lists the SHA-512 of every stored file below "manifest", and the names of each version below
"versions". Any OCFL validator checks all of them.
If a time stamp (RFC 3161) is stored beside it, inventory.json existed unchanged at that time:
  openssl ts -verify -data inventory.json -in TOKEN.tsr -CAfile ROOT.pem
{{end}}`))

// writeReadme writes README.txt for a bag or for an OCFL version.
func (c *content) writeReadme(w io.Writer, bag bool) error {
	root := ""
	if bag {
		root = "data/"
	}
	files, size := c.total()
	out := bufio.NewWriter(w)
	err := readme.Execute(out, map[string]any{"Name": c.name, "Facts": c.facts, "Files": files, "Bytes": size,
		"Bag": bag, "Root": root, "Course": courseTitle(&c.facts)})
	if err != nil {
		return fmt.Errorf("README.txt: %w", err)
	}
	return out.Flush()
}

func courseTitle(f *Facts) string {
	return cmp.Or(strings.TrimSpace(f.Course.Name+" ("+cmp.Or(f.Course.ShortName, f.Course.ID)+")"), f.Course.ID)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// line makes one line of a text of other people.
func line(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}
