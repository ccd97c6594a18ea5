package server

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/job"
)

// CheckName refuses a key or a name that is longer than [job.MostName] bytes, has a control character or is no UTF-8.
func CheckName(what, name string) error {
	if strings.ContainsAny(name, "\n\t") {
		return job.Errorf(job.Invalid, "request", "", "%s has a control character", what)
	}
	return CheckText(what, name, job.MostName)
}

// KeyOf returns the idempotency key of a request that creates a job: of the header Idempotency-Key, or of the field
// `key` of the body, which must not differ. Empty means none.
//
// A request that is sent again under its key gets the job of the first; see [Made]. asked is what the request asks for:
// a key that was used with something else is refused with an error of kind Conflict. The members `key` and `actor` may
// differ. Files that come with a request are compared by the application.
func KeyOf(r *http.Request, field string, asked any) (string, error) {
	key, all := field, r.Header.Values("Idempotency-Key")
	if len(all) > 0 {
		key = all[0]
	}
	if len(all) > 1 || field != "" && field != key {
		return "", job.Errorf(job.Invalid, "request", "",
			"the header Idempotency-Key and the field key differ, or there are several")
	}
	if err := CheckName("the idempotency key", key); err != nil || key == "" {
		return "", err
	}
	return key, repeat.Of(r.Context()).Asks(asked, "key", "actor")
}

// Made returns the status of the answer to a request that creates a job: 201, or 200 if the request was sent again
// under its key and the job exists; see [Replayed].
func Made(w http.ResponseWriter, r *http.Request) int {
	if Replayed(w, r) {
		return http.StatusOK
	}
	return http.StatusCreated
}

// Replayed sets the header Idempotency-Replayed if a request was sent again under its key, and reports whether it was.
func Replayed(w http.ResponseWriter, r *http.Request) bool {
	found := repeat.Of(r.Context()).Found()
	if found {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	return found
}

// tag is the ETag of a job: the version of its record, and a hash of the rest of the answer.
var tag = regexp.MustCompile(`^"([1-9][0-9]{0,17})(-[0-9a-f]+)?"$`)

// VersionOf returns the version of the record that a change is meant for: of the header If-Match, which has the ETag of
// an answer (RFC 9110, section 13.1.1), or of the field `version`, which must not differ. 0 means any. If the record
// has another version by then the answer is 412 to the header, and 409 to the field.
func VersionOf(r *http.Request, field int64) (int64, error) {
	header := strings.Join(r.Header.Values("If-Match"), ",")
	if header == "" || header == "*" {
		return field, nil
	}
	m := tag.FindStringSubmatch(header)
	if m == nil {
		return 0, job.Errorf(job.Invalid, "request", "", "If-Match must be the ETag of a job, not %.60q", header)
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err == nil && field != 0 && field != n {
		err = job.Errorf(job.Invalid, "request", "", "the header If-Match and the field version differ")
	}
	return n, err
}

// ReplyJob answers with JSON about a job whose record has a version: with its ETag, or with 304 if the client has it.
func ReplyJob[T any](w http.ResponseWriter, r *http.Request, status int, version int64, v T) error {
	text, err := json.Marshal(v)
	if err != nil {
		return job.Errorf(job.Internal, "encode", "", "%w", err)
	}
	sum := sha256.Sum256(text)
	etag := fmt.Sprintf(`"%d-%x"`, version, sum[:6])
	w.Header().Set("ETag", etag)
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	if has := r.Header.Get("If-None-Match"); reads && has != "" && (has == "*" || strings.Contains(has, etag)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // who does not read on has gone
	return nil
}
