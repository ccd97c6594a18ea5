package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// AccessRequest asks for something that is stored, as a package.
type AccessRequest struct {
	Object    string   `json:"object,omitempty"`   // its ARK; or
	LocalID   string   `json:"local_id,omitempty"` // the depositor's own name for it
	Owner     string   `json:"owner,omitempty"`    // of the local id
	Version   int      `json:"version,omitempty"`  // 0: the newest
	Files     []string `json:"files,omitempty"`    // none: all
	Format    string   `json:"format,omitempty"`   // zip, tar, bag-zip or bag-tar; empty: zip
	Name      string   `json:"name,omitempty"`     // of the package, without ending
	Requester string   `json:"requester,omitempty"`
	Key       string   `json:"key,omitempty"` // idempotency key
}

// Access is the state of such a request.
type Access struct {
	Token     string            `json:"token"` // who has it can fetch the package
	Job       job.ID            `json:"job"`
	State     lifecycle.State   `json:"state"`
	Status    int               `json:"status"`  // 200 ready, 201 queued, 202 not ready, 500 failed
	Message   string            `json:"message"` // the same in words
	Cause     string            `json:"cause,omitempty"`
	Object    string            `json:"object"`
	Version   int               `json:"version"`
	Format    string            `json:"format"`
	File      string            `json:"file"`           // name of the package as a file
	Files     int               `json:"files"`          // in it
	Bytes     int64             `json:"bytes"`          // of their content
	Size      int64             `json:"size,omitempty"` // of the package, once it is ready
	ETag      string            `json:"etag,omitempty"` // of the package, once it is ready
	Queue     string            `json:"queue"`          // small or large
	Place     int               `json:"place,omitempty"`
	Done      int64             `json:"done"` // bytes of content that were read
	Requested time.Time         `json:"requested"`
	Ready     time.Time         `json:"ready,omitzero"`
	Expires   time.Time         `json:"expires,omitzero"`
	Damaged   []string          `json:"damaged,omitempty"` // files that were taken from another storage location
	Links     map[string]string `json:"links"`
}

// Enrolment asks for a certificate by an enrolment token.
type Enrolment struct {
	Token   string `json:"token"`
	Request string `json:"request"` // of the certificate: PKCS #10 in PEM; only its key counts
}

// CertificateRequest asks for another certificate over a connection with the present one.
type CertificateRequest struct {
	Request string `json:"request"` // PKCS #10 in PEM; only its key counts
}

// Certificate is a certificate of a worker or an agent, and that of its authority, both in PEM.
type Certificate struct {
	Name        string    `json:"name"`
	Certificate string    `json:"certificate"`
	Authority   string    `json:"authority"`
	Expires     time.Time `json:"expires"`
}

// Members lists who may authenticate by certificates.
type Members struct {
	Enrolments   []MemberEnrolment   `json:"enrolments"`   // tokens that were not used yet
	Certificates []MemberCertificate `json:"certificates"` // that have not expired
}

// MemberEnrolment is an enrolment token that was not used yet.
type MemberEnrolment struct {
	Name     string    `json:"name"`
	Work     string    `json:"work,omitempty"`     // what it may claim
	Services string    `json:"services,omitempty"` // whose jobs it may run as an agent
	Expires  time.Time `json:"expires"`
	By       string    `json:"by,omitempty"`   // who made it
	Note     string    `json:"note,omitempty"` // why
}

// MemberCertificate is a certificate that was issued.
type MemberCertificate struct {
	Name        string    `json:"name"`
	Work        string    `json:"work,omitempty"`
	Services    string    `json:"services,omitempty"`
	Fingerprint string    `json:"fingerprint"` // SHA-256
	Issued      time.Time `json:"issued"`
	Expires     time.Time `json:"expires"`
	Revoked     time.Time `json:"revoked,omitzero"`
	RevokedBy   string    `json:"revoked_by,omitempty"`
	RevokedWhy  string    `json:"revoked_why,omitempty"`
}

// Tokens lists the tokens that may use the API.
type Tokens struct {
	Tokens []Token `json:"tokens"`
}

// Token is a token of the API, without its text.
type Token struct {
	Hash    string    `json:"hash"` // its SHA-256
	Role    string    `json:"role"`
	Work    string    `json:"work,omitempty"`   // what a worker may claim
	Groups  string    `json:"groups,omitempty"` // to which a depositor or operator is limited
	Owner   string    `json:"owner"`
	Expires time.Time `json:"expires,omitzero"`
	Expired bool      `json:"expired,omitempty"`
	Comment string    `json:"comment,omitempty"`
	Used    time.Time `json:"used,omitzero"` // when it was used last, to the minute
}
