package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const statusForm = `{"id":%d,"status":"%s","message":"%s"}`

var words = []string{"Queued", "Processing", "Submitted", "Prepared", "Running", "Cleaned", "Completed", "Failed",
	"Invalid", "Unknown",
	"Locked", "Killed"}

// push sends the files of a directory as the original does, and gives the id.
func (s *FakeServer) push(url, dir string) (uint32, error) {
	const boundary = "0123456789abcdef-fedcba9876543210"
	var form bytes.Buffer
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(&form, "--%s\r\nContent-Disposition: form-data; %s; filename=\"%s\"\r\n\r\n%s\r\n",
			boundary, fieldOf(e.Name()), strings.ReplaceAll(strings.ReplaceAll(e.Name(), `\`, `\\`), `"`, `\"`), data)
	}
	fmt.Fprintf(&form, "--%s--\r\n", boundary)
	req, err := http.NewRequestWithContext(s.ctx, "POST", url, &form)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "multipart/form-data; boundary="+boundary)
	code, _, body, err := s.do(req)
	if err != nil {
		return 0, err
	}
	if code < 200 || code > 299 {
		return 0, fmt.Errorf("%d %s", code, body)
	}
	id, _, err := strictPayload(body)
	return id, err
}

// fieldOf is the name of a part: quoted, or percent-encoded if it has special characters.
func fieldOf(name string) string {
	var b strings.Builder
	for _, c := range []byte(name) {
		if c <= ' ' || c >= 0x7f || strings.ContainsRune("\"#<>`?{}/%", rune(c)) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if b.String() == name {
		return `name="` + name + `"`
	}
	return `name*=utf-8''` + b.String()
}

func (s *FakeServer) do(req *http.Request) (code int, media string, body []byte, err error) {
	req.Header.Set("Accept", "*/*")
	req.Header.Set("User-Agent", "")
	t := &http.Transport{DisableKeepAlives: true, DisableCompression: true} // a pool for each call, and no time limits
	res, err := t.RoundTrip(req)
	if err != nil {
		return 0, "", nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, res.Header.Get("Content-Type"), body, err
}

// strictPayload requires all six keys with their types and a known word; others may follow.
func strictPayload(text []byte) (id uint32, status string, err error) {
	var p struct {
		ID     *uint32              `json:"id"`
		Input  *map[string][]uint16 `json:"input"`
		Status *string              `json:"status"`
		Loc    *string              `json:"loc"`
		PID    *uint32              `json:"pid"`
		Killed *bool                `json:"killed"`
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return 0, "", err
	}
	if p.ID == nil || p.Input == nil || p.Status == nil || p.Loc == nil || p.PID == nil || p.Killed == nil {
		return 0, "", fmt.Errorf("missing field in %.200s", text)
	}
	if !slices.Contains(words, *p.Status) {
		return 0, "", fmt.Errorf("unknown variant %q", *p.Status)
	}
	return *p.ID, *p.Status, nil
}

// fetch takes exactly 200 with a ZIP as the result, and another 2xx as a payload.
func (s *FakeServer) fetch(url string) (word string, zip []byte, err error) {
	req, err := http.NewRequestWithContext(s.ctx, "GET", url, nil)
	if err != nil {
		return "", nil, err
	}
	code, media, body, err := s.do(req)
	switch {
	case err != nil:
		return "", nil, err
	case code == 200 && strings.Contains(media, isZIP):
		return "", body, nil
	case code < 200 || code > 299:
		return "", nil, fmt.Errorf("%d", code)
	}
	_, word, err = strictPayload(body)
	return word, nil, err
}

func (s *FakeServer) upload(w http.ResponseWriter, r *http.Request) {
	parts, boundary, err := readForm(r)
	bad := func(message string) { reply(w, 400, isJSON, fmt.Sprintf(statusForm, 0, "Unknown", message)) }
	if !boundary {
		reply(w, 400, isText, noBoundary)
		return
	}
	if err != nil {
		bad("Multipart error: Error parsing `multipart/form-data` request")
		return
	}
	fields := map[string]string{}
	for _, p := range parts {
		if !p.isFile {
			fields[p.field] = string(p.data)
		}
	}
	text, hasUser := fields["user_id"]
	service, hasService := fields["service"]
	user, err := strconv.ParseInt(text, 10, 32)
	_, known := s.o.Services[service]
	switch {
	case !hasUser:
		bad("Missing user_id field")
	case err != nil:
		bad("Invalid user_id, should be a number")
	case !hasService:
		bad("Missing service field")
	case !known:
		bad("Invalid service")
	default:
		id, err := s.insert(int(user), service, parts)
		if err != nil {
			reply(w, 500, isJSON, fmt.Sprintf(statusForm, 0, "Unknown", "Error while adding the job to the database"))
			return
		}
		reply(w, 201, isJSON, fmt.Sprintf(statusForm, id, "Queued", "Job successfully uploaded"))
	}
}

func (s *FakeServer) find(w http.ResponseWriter, r *http.Request) (job, bool) {
	text := r.PathValue("id")
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		reply(w, 400, isText, "Invalid URL: Cannot parse `"+text+"` to a `u32`")
		return job{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.jobs[uint32(id)]
	if j == nil {
		reply(w, 404, isJSON, fmt.Sprintf(statusForm, 0, "Unknown", fmt.Sprintf("Job %d not found in the database",
			id)))
		return job{}, false
	}
	return *j, true
}

func (s *FakeServer) download(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	if j.status != "Completed" {
		reply(w, 200, isJSON, fmt.Sprintf(statusForm, j.id, j.status, ""))
		return
	}
	data, err := os.ReadFile(filepath.Join(j.loc, "output.zip"))
	if err != nil {
		reply(w, 500, isJSON, fmt.Sprintf(statusForm, j.id, j.status, "Error reading output file"))
		return
	}
	reply(w, 200, isZIP, string(data))
}

func (s *FakeServer) partial(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	from := s.o.Services[j.service].Download
	from = from[:strings.LastIndexByte(from, '/')+1] + "retrieve_partial"
	req, err := http.NewRequestWithContext(s.ctx, "GET", fmt.Sprintf("%s/%d", from, j.dest), nil)
	if err != nil {
		reply(w, 400, isJSON, fmt.Sprintf(statusForm, j.id, "Unknown", "Invalid service configuration"))
		return
	}
	code, media, body, err := s.do(req)
	switch {
	case j.dest == 0 || err == nil && code == 404:
		reply(w, 404, isJSON, fmt.Sprintf(statusForm, j.id, "Unknown", "Job payload not found on client"))
	case err != nil || code != 200 || !strings.Contains(media, isZIP):
		reply(w, 500, isJSON, fmt.Sprintf(statusForm, j.id, "Unknown", "Error retrieving partial data from client"))
	default:
		reply(w, 200, isZIP, string(body))
	}
}

// terminate inspects no state: a Completed job becomes Killed too.
func (s *FakeServer) terminate(w http.ResponseWriter, r *http.Request) {
	j, ok := s.find(w, r)
	if !ok {
		return
	}
	s.set(j.id, "Locked")
	req, err := http.NewRequestWithContext(s.ctx, "POST", fmt.Sprintf("%s/%d", s.o.Services[j.service].Terminate,
		j.dest), nil)
	var code int
	if err == nil {
		code, _, _, err = s.do(req)
	}
	if err != nil || code < 200 || code > 299 {
		s.set(j.id, j.status)
		reply(w, 500, isJSON, fmt.Sprintf(statusForm, j.id, "Unknown", "could not terminate job"))
		return
	}
	s.set(j.id, "Killed")
	reply(w, 200, isJSON, fmt.Sprintf(statusForm, j.id, "Unknown", "job terminated"))
}
