package server

import (
	"net/http"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// CheckName refuses a key or a name that is longer than [job.MostName] bytes, has a control character or is no UTF-8.
func CheckName(what, name string) error {
	if strings.ContainsAny(name, "\n\t") {
		return job.Errorf(job.Invalid, "request", "", "%s has a control character", what)
	}
	return CheckText(what, name, job.MostName)
}

// KeyOf gives the idempotency key of a request that creates a job: of the header Idempotency-Key, or of the field `key`
// of the body, which must not differ. Empty means none.
//
// Who sends a request again under its key gets the answer of the first. The application refuses a key that was used
// for something else with an error of kind Conflict.
func KeyOf(r *http.Request, field string) (string, error) {
	all := r.Header.Values("Idempotency-Key")
	if len(all) == 0 {
		return field, CheckName("the idempotency key", field)
	}
	if len(all) > 1 || field != "" && field != all[0] {
		return "", job.Errorf(job.Invalid, "request", "", "the header Idempotency-Key and the field key differ, or there are several")
	}
	return all[0], CheckName("the idempotency key", all[0])
}
