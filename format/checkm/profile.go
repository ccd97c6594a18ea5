package checkm

import "slices"

// Column is the meaning of a field of a row.
type Column uint8

// The columns of Merritt's profiles.
const (
	FileURL Column = iota
	HashAlgorithm
	HashValue
	FileSize
	FileLastModified
	FileName
	MIMEType
	PrimaryIdentifier
	LocalIdentifier
	Creator
	Title
	Date
	columnCount
)

var columnNames = [columnCount]string{
	FileURL: "fileUrl", HashAlgorithm: "hashAlgorithm", HashValue: "hashValue", FileSize: "fileSize",
	FileLastModified: "fileLastModified", FileName: "fileName", MIMEType: "mimeType",
	PrimaryIdentifier: "primaryIdentifier", LocalIdentifier: "localIdentifier",
	Creator: "creator", Title: "title", Date: "date",
}

// String returns the name of the column in a #%fields line, without its prefix.
func (c Column) String() string {
	if c < columnCount {
		return columnNames[c]
	}
	return "unknown"
}

// Profile is a type of manifest: its URL and its columns. Each type has one value, so profiles are compared with ==.
type Profile struct {
	name     string
	urls     []string
	columns  []Column
	fields   []string // as a Writer writes them, with prefix
	keyword  string   // "fields", or "columns" as Merritt's own programs write it
	prefixes [][2]string
	glued    bool // prefix and namespace are written nfo:<namespace>, as Merritt's own programs do
}

const registry = "http://uc3.cdlib.org/registry/"

var (
	objectColumns = []Column{FileURL, HashAlgorithm, HashValue, FileSize, FileLastModified, FileName, MIMEType}
	batchColumns  = []Column{FileURL, HashAlgorithm, HashValue, FileSize, FileLastModified, FileName, PrimaryIdentifier,
		LocalIdentifier, Creator, Title, Date}
	containerColumns = []Column{FileName, HashAlgorithm, HashValue, FileSize, FileLastModified, MIMEType}
)

// The profiles of the Merritt queue.
var (
	// Object lists the files of one object.
	Object = deposited("mrt-ingest-manifest", objectColumns, "mrt/mrt-ingest-manifest")
	// BatchManifests lists objects, each by the URL of its Object manifest.
	BatchManifests = deposited("mrt-batch-manifest", batchColumns, "mrt/mrt-batch-manifest")
	// BatchContainers lists objects, each by the URL of a .zip or .tar file.
	BatchContainers = deposited("mrt-container-batch-manifest", batchColumns)
	// BatchFiles lists objects of a single file each.
	BatchFiles = deposited("mrt-single-file-batch-manifest", batchColumns)
	// ContainerObject lists the files inside a container: names, no URLs.
	ContainerObject = generated("mrt-object-manifest", containerColumns, "mrt/mrt-object-manifest")
	// Add is the manifest that ingest sends to storage: the addresses of the files of a finished object.
	Add = generated("mrt-add-manifest", objectColumns, "mrt/mrt-add-manifest")
)

var profiles = []*Profile{Object, BatchManifests, BatchContainers, BatchFiles, ContainerObject, Add}

// deposited returns a profile of manifests that depositors write.
func deposited(name string, columns []Column, aliases ...string) *Profile {
	p := &Profile{
		name: name, urls: []string{registry + "ingest/manifest/" + name}, columns: columns, keyword: "fields",
		prefixes: [][2]string{
			{"mrt", "http://merritt.cdlib.org/terms#"},
			{"nfo", "http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#"},
		},
	}
	return p.complete("mrt", aliases)
}

// generated returns a profile of manifests that Merritt's own programs write.
func generated(name string, columns []Column, aliases ...string) *Profile {
	p := &Profile{
		name: name, urls: []string{registry + "store/manifest/" + name}, columns: columns, keyword: "columns",
		glued: true,
		prefixes: [][2]string{
			{"nfo", "http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#"},
			{"nie", "http://www.semanticdesktop.org/ontologies/2007/01/19/nie/#"},
			{"mrt", "http://uc3.cdlib.org/ontology/mrt/mom#"},
		},
	}
	return p.complete("nie", aliases)
}

func (p *Profile) complete(mimePrefix string, aliases []string) *Profile {
	for _, a := range aliases {
		p.urls = append(p.urls, registry+a)
	}
	for _, c := range p.columns {
		prefix := "nfo:"
		switch {
		case c == MIMEType:
			prefix = mimePrefix + ":"
		case c >= PrimaryIdentifier:
			prefix = "mrt:"
		}
		p.fields = append(p.fields, prefix+c.String())
	}
	return p
}

// Profiles returns all profiles.
func Profiles() []*Profile { return slices.Clone(profiles) }

// Lookup returns the profile with a URL. The comparison is exact.
func Lookup(url string) (*Profile, bool) {
	for _, p := range profiles {
		if slices.Contains(p.urls, url) {
			return p, true
		}
	}
	return nil, false
}

// Name returns the last part of the URL: "mrt-batch-manifest".
func (p *Profile) Name() string { return p.name }

// String returns the name.
func (p *Profile) String() string { return p.name }

// URL returns the URL that a Writer writes into the header.
func (p *Profile) URL() string { return p.urls[0] }

// URLs returns all URLs by which manifests name the profile; the first is URL().
func (p *Profile) URLs() []string { return slices.Clone(p.urls) }

// Columns returns the columns of a row, in order.
func (p *Profile) Columns() []Column { return slices.Clone(p.columns) }

// Has reports whether rows have the column.
func (p *Profile) Has(c Column) bool { return slices.Contains(p.columns, c) }

// Batch reports whether a row describes an object rather than a file of one.
func (p *Profile) Batch() bool { return p.Has(PrimaryIdentifier) }
