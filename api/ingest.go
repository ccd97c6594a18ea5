package api

// Submission describes a payload that is handed in for ingest.
type Submission struct {
	Type         string   `json:"type,omitempty"` // empty: found out; file, container, object-manifest, batch-manifest, ...
	Profile      string   `json:"profile,omitempty"`
	Submitter    string   `json:"submitter,omitempty"`
	Title        string   `json:"title,omitempty"`
	Creator      string   `json:"creator,omitempty"`
	Date         string   `json:"date,omitempty"`
	Filename     string   `json:"filename,omitempty"`
	PrimaryID    string   `json:"primary_id,omitempty"`
	LocalIDs     []string `json:"local_ids,omitempty"`
	DigestType   string   `json:"digest_type,omitempty"`
	DigestValue  string   `json:"digest_value,omitempty"`
	Notification string   `json:"notification,omitempty"`
	Note         string   `json:"note,omitempty"`
	Key          string   `json:"key,omitempty"` // idempotency key
	Update       bool     `json:"update,omitempty"`
	Priority     *int     `json:"priority,omitempty"`
}

// ObjectQuery selects stored objects; empty fields do not restrict.
type ObjectQuery struct {
	ARK     string
	LocalID string
	Owner   string
	Digest  string // sha256 or sha512 in hex, of one of its files
	After   string // the ARK after which to go on
	Limit   int
}
