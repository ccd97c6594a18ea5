//go:build linux

package trials

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stagepost/stagepost/internal/ziptest"
)

// patience is how long anything may take here that must come: long, since machines are slow and busy.
const patience = time.Minute

// user is a client of the API of the original: of our server or of the original's.
type user struct {
	*testing.T
	url   string
	token string
}

// status is the body that the API answers with.
type status struct {
	ID       int    `json:"id"`
	Status   string `json:"status"`
	Message  string `json:"message"`
	Reason   string `json:"reason"`
	ExitCode *int   `json:"exit_code"`
	Signal   string `json:"signal"`
	Position int    `json:"queue_position"`
	Public   string `json:"public_id"`
}

// do sends a request and gives the whole answer.
func (u user) do(method, path, media string, body io.Reader) (code int, header http.Header, text []byte) {
	u.Helper()
	q, err := http.NewRequestWithContext(u.Context(), method, u.url+path, body)
	if err != nil {
		u.Fatal(err)
	}
	if media != "" {
		q.Header.Set("Content-Type", media)
	}
	if u.token != "" {
		q.Header.Set("Authorization", "Bearer "+u.token)
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		u.Fatalf("%s %s: %v", method, path, err)
	}
	defer a.Body.Close()
	text, err = io.ReadAll(a.Body)
	if err != nil {
		u.Fatalf("%s %s: the answer was cut: %v", method, path, err)
	}
	return a.StatusCode, a.Header, text
}

// ask sends a request whose answer is a status.
func (u user) ask(method, path, media string, body io.Reader) (code int, s status) {
	u.Helper()
	code, header, text := u.do(method, path, media, body)
	if header.Get("Content-Type") == "application/zip" {
		return code, status{Status: "Completed"}
	}
	if err := json.Unmarshal(text, &s); err != nil {
		u.Fatalf("%s %s: %d %.200q: %v", method, path, code, text, err)
	}
	return code, s
}

// form makes the body of an upload, the files first.
func form(service string, id int, files map[string]string) (media string, body *bytes.Buffer) {
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		part, _ := w.CreateFormFile("file", name) // a buffer takes everything
		io.WriteString(part, files[name])
	}
	w.WriteField("user_id", strconv.Itoa(id))
	w.WriteField("service", service)
	w.Close()
	return w.FormDataContentType(), body
}

// uploadTo uploads files for a service and gives the job's id.
func (u user) uploadTo(service string, id int, files map[string]string) int {
	u.Helper()
	media, body := form(service, id, files)
	code, s := u.ask("POST", "/upload", media, body)
	if code != http.StatusCreated || s.Status != "Queued" {
		u.Fatalf("upload: %d %+v", code, s)
	}
	return s.ID
}

// upload uploads a script as user 1.
func (u user) upload(text string) int {
	u.Helper()
	return u.uploadTo("example", 1, map[string]string{"run.sh": text})
}

// status asks how a job stands.
func (u user) status(id int) status {
	u.Helper()
	_, s := u.ask("GET", fmt.Sprintf("/download/%d", id), "", nil)
	return s
}

// until asks until a job has one of the words, as the users' scripts do.
func (u user) until(id int, words ...string) status {
	u.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		s := u.status(id)
		if slices.Contains(words, s.Status) {
			return s
		}
		if time.Now().After(deadline) {
			u.Fatalf("job %d never was one of %v: %+v", id, words, s)
		}
	}
}

// results downloads the results of a completed job.
func (u user) results(id int) map[string]string {
	u.Helper()
	code, header, text := u.do("GET", fmt.Sprintf("/download/%d", id), "", nil)
	if code != http.StatusOK || header.Get("Content-Type") != "application/zip" {
		u.Fatalf("download: %d %s %.300q", code, header.Get("Content-Type"), text)
	}
	return ziptest.Files(u.T, text)
}

// partial downloads what there is of a job; nil if the answer is no ZIP.
func (u user) partial(id int) (code int, files map[string]string) {
	u.Helper()
	code, header, text := u.do("GET", fmt.Sprintf("/download_partial/%d", id), "", nil)
	if header.Get("Content-Type") != "application/zip" {
		return code, nil
	}
	return code, ziptest.Files(u.T, text)
}

// terminate cancels a job.
func (u user) terminate(id int) (code int, message string) {
	u.Helper()
	code, s := u.ask("POST", fmt.Sprintf("/terminate/%d", id), "", nil)
	return code, s.Message
}

// has fails the test unless all names are there.
func has(t *testing.T, files map[string]string, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, ok := files[name]; !ok {
			t.Errorf("%s is not among %v", name, slices.Sorted(maps.Keys(files)))
		}
	}
}

// partialOrCut is partial where an answer may be cut in the middle.
func (u user) partialOrCut(id int) (code int, files map[string]string) {
	u.Helper()
	a, err := http.Get(fmt.Sprintf("%s/download_partial/%d", u.url, id))
	if err != nil {
		return 0, nil
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.Header.Get("Content-Type") != "application/zip" {
		return a.StatusCode, nil
	}
	return a.StatusCode, ziptest.Files(u.T, text)
}
