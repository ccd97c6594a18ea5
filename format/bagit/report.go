package bagit

import "fmt"

// Code names a rule that a bag breaks.
type Code string

// The rules.
const (
	CodeLayout      Code = "layout"       // an archive without a single directory at its top (section 4)
	CodeUnsafe      Code = "unsafe-path"  // a name that must not be followed
	CodeType        Code = "type"         // a link or device where a file should be
	CodeDuplicate   Code = "duplicate"    // a name twice in an archive or in a manifest
	CodeDeclaration Code = "declaration"  // bagit.txt
	CodePayload     Code = "payload"      // there is no data/
	CodeManifest    Code = "manifest"     // there is none, or a line of it is wrong
	CodeTagManifest Code = "tag-manifest" // it lists what it must not, or lacks what it must
	CodeAlgorithm   Code = "algorithm"    // a manifest of an algorithm that this program does not know
	CodeInfo        Code = "bag-info"     // a line of bag-info.txt is wrong
	CodeOxum        Code = "oxum"         // Payload-Oxum is not what the payload has
	CodeFetch       Code = "fetch"        // fetch.txt is wrong, or what it names was not fetched
	CodeMissing     Code = "missing"      // a manifest names it, the bag does not have it
	CodeUnlisted    Code = "unlisted"     // the payload has it, a manifest does not name it
	CodeDigest      Code = "digest"       // other bytes than the manifest says
	CodeRead        Code = "read"         // it cannot be read
	CodeCollision   Code = "collision"    // two names that some file system cannot tell apart
)

// Fault is one thing that is wrong with a bag.
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

// maxFaults is how many faults of each sort a report keeps.
const maxFaults = 1000

// Report is what a validation found.
type Report struct {
	Version    string   `json:"version"` // of BagIt, as the bag declares it
	Algorithms []string `json:"algorithms"`
	Files      int64    `json:"files"` // of the payload
	Bytes      int64    `json:"bytes"`
	Errors     []Fault  `json:"errors"`
	Warnings   []Fault  `json:"warnings"`
	More       int      `json:"more,omitempty"` // faults that were left out because there are too many
}

// Valid tells whether the bag is complete and every checksum is right.
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
