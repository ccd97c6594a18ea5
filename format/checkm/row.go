package checkm

import (
	"slices"
	"strings"
	"time"
)

// Row is a line of a manifest: a file, or in a batch an object. Fields that the profile lacks are zero. The strings
// of a row share the memory of its line: a caller that keeps one field of many rows should call strings.Clone.
type Row struct {
	Line      int    // in the file, from 1; a Writer ignores it
	URL       string // as written, not decoded; "" means that the file cannot be fetched
	Digest    Digest
	Size      int64     // bytes, -1 = unknown
	Modified  time.Time // UTC; zero if omitted or invalid. A date without a zone is UTC
	FileName  string    // slash-separated path below the object; if omitted, the path of the URL
	MIMEType  string
	PrimaryID string
	LocalID   string // as written; LocalIDs splits it
	Creator   string
	Title     string
	Date      string // of the object, free text
}

// LocalIDs splits LocalID at semicolons, without blanks, empty ids and duplicates, in the order of the manifest.
func (r Row) LocalIDs() []string {
	var ids []string
	for id := range strings.SplitSeq(r.LocalID, ";") {
		if id = strings.TrimSpace(id); id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
