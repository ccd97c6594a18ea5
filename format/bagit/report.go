package bagit

import "fmt"

// Code names a rule that a bag breaks.
type Code string

// The rules.
const (
	// an archive that does not have exactly one directory at its top (RFC 8493 section 4)
	CodeLayout      Code = "layout"
	CodeUnsafe      Code = "unsafe-path"  // a name that is unsafe to follow
	CodeType        Code = "type"         // a link or device instead of a file
	CodeDuplicate   Code = "duplicate"    // a name twice in an archive or in a manifest
	CodeDeclaration Code = "declaration"  // bagit.txt
	CodePayload     Code = "payload"      // data/ is missing
	CodeManifest    Code = "manifest"     // a manifest is missing, or a line of it is invalid
	CodeTagManifest Code = "tag-manifest" // a tag manifest lists a forbidden file, or a required file is not listed
	CodeAlgorithm   Code = "algorithm"    // a manifest of an unsupported algorithm
	CodeInfo        Code = "bag-info"     // a line of bag-info.txt is invalid
	CodeOxum        Code = "oxum"         // Payload-Oxum differs from the payload
	CodeFetch       Code = "fetch"        // fetch.txt is invalid, or a file was not fetched
	CodeMissing     Code = "missing"      // a manifest lists a file that the bag does not have
	CodeUnlisted    Code = "unlisted"     // the payload has a file that a manifest does not list
	CodeDigest      Code = "digest"       // the checksum of a file differs from the manifest
	CodeRead        Code = "read"         // a file is unreadable
	CodeCollision   Code = "collision"    // two names that are equal on some file systems
	CodeSystem      Code = "system-file"  // a file that operating systems add, such as Thumbs.db
)

// Fault is one error or warning of a validation.
type Fault struct {
	Code Code   `json:"code"`
	Path string `json:"path,omitempty"`
	Text string `json:"text"`
}

func (f Fault) String() string {
	if f.Path == "" {
		return fmt.Sprintf("%s: %s", f.Code, f.Text)
	}
	return fmt.Sprintf("%s: %q: %s", f.Code, f.Path, f.Text)
}

// maxFaults bounds the errors and the warnings that a report keeps, each.
const maxFaults = 1000

// Report is the result of a validation.
type Report struct {
	Version    string   `json:"version"` // of BagIt, as the bag declares it
	Algorithms []string `json:"algorithms"`
	Files      int64    `json:"files"` // of the payload
	Bytes      int64    `json:"bytes"`
	Errors     []Fault  `json:"errors"`
	Warnings   []Fault  `json:"warnings"`
	More       int      `json:"more,omitempty"` // number of omitted faults, above the limit
}

// Valid reports whether the bag is complete and every checksum matches.
func (r *Report) Valid() bool { return len(r.Errors) == 0 }

func (r *Report) wrong(c Code, path, format string, args ...any) {
	r.add(&r.Errors, Fault{c, path, fmt.Sprintf(format, args...)})
}

func (r *Report) odd(c Code, path, format string, args ...any) {
	r.add(&r.Warnings, Fault{c, path, fmt.Sprintf(format, args...)})
}

func (r *Report) add(to *[]Fault, f Fault) {
	if len(*to) == maxFaults {
		r.More++
		return
	}
	*to = append(*to, f)
}
