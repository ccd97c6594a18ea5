package wire

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// incoming is an upload with its form's fields.
type incoming struct {
	Upload
	user, service       string
	hasUser, hasService bool
	hasScript           bool
}

func (in *incoming) file(name string, r io.Reader) error {
	in.hasScript = in.hasScript || name == "run.sh"
	return in.Upload.File(name, r)
}

func (in *incoming) field(name, value string) {
	switch name { // the last one wins
	case "user_id":
		in.user, in.hasUser = value, true
	case "service":
		in.service, in.hasService = value, true
	}
}

// upload stores the whole form before it inspects the fields, as the original does: they usually come last.
func (u *users) upload(w http.ResponseWriter, r *http.Request) {
	r, ok := u.identify(w, r)
	if !ok {
		return
	}
	boundary, err := boundaryOf(r)
	if err != nil {
		answer(w, http.StatusBadRequest, textMedia, []byte("Invalid `boundary` for `multipart/form-data` request"))
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if !validKey(key) {
		answerStatus(w, http.StatusBadRequest, 0, Unknown, "Invalid Idempotency-Key")
		return
	}
	up, err := u.b.Begin(r.Context())
	if err != nil {
		u.refuse(w, err, "Could not create job directory")
		return
	}
	defer up.Discard()
	if k, can := up.(Keyed); can && key != "" {
		if err := k.Key(key); err != nil {
			u.refuse(w, err, "Error while adding the job to the database")
			return
		}
	}
	in := &incoming{Upload: up}
	if err := receive(w, r, boundary, u.o.Limits, in); err != nil {
		u.refuseForm(w, err)
		return
	}
	u.commit(w, r, in)
}

func (u *users) commit(w http.ResponseWriter, r *http.Request, in *incoming) {
	bad := func(message string) { answerStatus(w, http.StatusBadRequest, 0, Unknown, message) }
	user, isNumber := parseUser(in.user)
	caller, _ := CallerOf(r.Context())
	switch {
	case !in.hasUser && caller.Owner == "":
		bad("Missing user_id field")
		return
	case in.hasUser && !isNumber:
		bad("Invalid user_id, should be a number")
		return
	case !in.hasService:
		bad("Missing service field")
		return
	case u.o.NeedScript && !in.hasScript:
		bad("Missing run.sh")
		return
	}
	id, err := in.Commit(r.Context(), user, in.service)
	switch {
	case errors.Is(err, ErrService):
		bad("Invalid service")
	case err != nil:
		u.refuse(w, err, "Error while adding the job to the database")
	default: // 201 to a repeated request too: the original has no other success, and its users compare with that
		if up, can := in.Upload.(Replaying); can && up.Replayed() && u.o.Compat != Strict {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		answerStatus(w, http.StatusCreated, id, Queued, "Job successfully uploaded")
	}
}

// refuse answers with the refusal's sentence, or with 500 and the original's text.
func (u *users) refuse(w http.ResponseWriter, err error, otherwise string) {
	if code, sentence, ok := refusal(err); ok {
		if code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "10")
		}
		answerStatus(w, code, 0, Unknown, sentence)
		return
	}
	u.fault("upload", 0, err)
	answerStatus(w, http.StatusInternalServerError, 0, Unknown, otherwise)
}

const brokenForm = "Error parsing `multipart/form-data` request"

// refuseForm answers for a form that could not be taken in. The original answers 400 to a body that is too large.
func (u *users) refuseForm(w http.ResponseWriter, err error) {
	code, message := http.StatusBadRequest, ""
	switch {
	case errors.Is(err, errTooLarge) && u.o.Compat != Strict:
		code = http.StatusRequestEntityTooLarge
		message = fmt.Sprintf("Upload is larger than %d bytes", u.o.Limits.Body)
	case errors.Is(err, errForm):
		message = "Multipart error: " + brokenForm
	case errors.Is(err, errChunk), errors.Is(err, errTooLarge):
		message = "Could not save file: Chunk read failed: " + brokenForm
	case errors.Is(err, errParts):
		message = "Multipart error: more than " + strconv.Itoa(u.o.Limits.Parts) + " parts"
	case errors.Is(err, errNameLong):
		code, message = http.StatusInternalServerError, "Could not save file: File creation failed: File name too "+
			"long (os error 36)"
	case errors.Is(err, errNameBad):
		code = http.StatusInternalServerError
		message = "Could not save file: File creation failed: file name contained an unexpected NUL byte"
	default:
		u.refuse(w, err, "Could not save file: File creation failed")
		return
	}
	answerStatus(w, code, 0, Unknown, message)
}

// validKey reports whether an idempotency key is absent or short and printable.
func validKey(key string) bool {
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return false
		}
	}
	return len(key) <= 255
}
