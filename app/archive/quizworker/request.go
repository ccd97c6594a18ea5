package quizworker

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/source"
)

// Spec is the spec of a job: what a Moodle ordered, without the token.
type Spec struct {
	UUID     string   `json:"uuid"`
	Legacy   bool     `json:"legacy,omitempty"` // ordered by quiz_archiver
	Moodle   Moodle   `json:"moodle"`
	Task     int64    `json:"task,omitempty"`   // archivingmod_quiz
	Course   int64    `json:"course,omitempty"` // the rest: quiz_archiver
	Module   int64    `json:"module,omitempty"`
	Quiz     int64    `json:"quiz,omitempty"`
	Attempts []int64  `json:"attempts"`
	Sections []string `json:"sections"`
	Folder   string   `json:"folder_pattern"`
	File     string   `json:"file_pattern"`
	Archive  string   `json:"archive"` // name of the ZIP file without extension
	Page     pdf.Page `json:"page"`
	Metadata bool     `json:"metadata"`
	Attached bool     `json:"attachments"`
	HTML     bool     `json:"html"` // the reports are kept beside the PDF files
	Backups  []Backup `json:"backups,omitempty"`
}

// Moodle has the addresses of a Moodle.
type Moodle struct {
	Base    string `json:"base"`
	Service string `json:"service"`
	Upload  string `json:"upload"`
}

// Backup is a backup that a legacy order asks for.
type Backup struct {
	ID   string `json:"id"`
	File string `json:"file"`
	URL  string `json:"url"`
}

// Versions of the protocol.
const (
	version       = 1
	versionLegacy = 7
)

const maxAttempts = 100_000

// wire types: pointers are keys that must be there.
type modernOrder struct {
	Version *int   `json:"api_version"`
	Task    *int64 `json:"taskid"`
	Moodle  *struct {
		Token   *string `json:"wstoken"`
		Base    *string `json:"base_url"`
		Service *string `json:"webservice_url"`
		Upload  *string `json:"upload_url"`
	} `json:"moodle_api"`
	Job *orderedJob `json:"job"`
}

type orderedJob struct {
	Attempts []int64        `json:"attemptids"`
	Report   map[string]any `json:"report_sections"`
	Sections map[string]any `json:"sections"` // legacy
	Paper    *string        `json:"paper_format"`
	Archive  *string        `json:"archive_filename"`
	Folder   *string        `json:"foldername_pattern"`
	File     *string        `json:"filename_pattern"`
	Images   any            `json:"image_optimize"`
	Metadata flag           `json:"fetch_metadata"`
	Attached flag           `json:"fetch_attachments"`
	HTML     flag           `json:"keep_html_files"`
}

type legacyOrder struct {
	Version *int        `json:"api_version"`
	Token   *string     `json:"wstoken"`
	Base    *string     `json:"moodle_base_url"`
	Service *string     `json:"moodle_ws_url"`
	Upload  *string     `json:"moodle_upload_url"`
	Course  *int64      `json:"courseid"`
	Module  *int64      `json:"cmid"`
	Quiz    *int64      `json:"quizid"`
	Archive *string     `json:"archive_filename"`
	Job     *orderedJob `json:"task_archive_quiz_attempts"`
	Backups []struct {
		ID   string `json:"backupid"`
		File string `json:"filename"`
		URL  string `json:"file_download_url"`
	} `json:"task_moodle_backups"`
}

// flag is a truth value as PHP sends it: true, 1 or "1".
type flag bool

// UnmarshalJSON is part of [json.Unmarshaler].
func (f *flag) UnmarshalJSON(text []byte) error {
	var v any
	err := json.Unmarshal(text, &v)
	*f = flag(truth(v))
	return err
}

func truth(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case float64:
		return v != 0
	case string:
		return v != "" && v != "0" && v != "false"
	}
	return v != nil
}

// errOrder is the error for an order that is not as the protocol states.
var errOrder = errors.New("invalid request")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errOrder, fmt.Sprintf(format, args...))
}

// need gives the value of a key that must be there.
func need[V any](err *error, key string, p *V) (v V) {
	if p != nil {
		return *p
	}
	if *err == nil {
		*err = invalid("the key %s is missing", key)
	}
	return v
}

// parse reads an order. It returns the token apart.
func parse(text []byte, legacy bool) (s Spec, token string, err error) {
	if legacy {
		return parseLegacy(text)
	}
	var o modernOrder
	if err := json.Unmarshal(text, &o); err != nil {
		return s, "", invalid("%v", err)
	}
	if v := need(&err, "api_version", o.Version); err == nil && v != version {
		err = invalid("api_version is %d; this worker has version %d", v, version)
	}
	m, j := need(&err, "moodle_api", o.Moodle), need(&err, "job", o.Job)
	s.Task = need(&err, "taskid", o.Task)
	token = need(&err, "moodle_api.wstoken", m.Token)
	s.Moodle = Moodle{need(&err, "moodle_api.base_url", m.Base), need(&err, "moodle_api.webservice_url", m.Service),
		need(&err, "moodle_api.upload_url", m.Upload)}
	s.Archive = need(&err, "job.archive_filename", j.Archive)
	if err == nil {
		err = s.take(&j, j.Report)
	}
	return s.complete(text, token, err)
}

func parseLegacy(text []byte) (s Spec, token string, err error) {
	var o legacyOrder
	if err := json.Unmarshal(text, &o); err != nil {
		return s, "", invalid("%v", err)
	}
	if v := need(&err, "api_version", o.Version); err == nil && v != versionLegacy {
		err = invalid("api_version is %d; this worker has version %d here", v, versionLegacy)
	}
	token = need(&err, "wstoken", o.Token)
	s.Moodle = Moodle{need(&err, "moodle_base_url", o.Base), need(&err, "moodle_ws_url", o.Service),
		need(&err, "moodle_upload_url", o.Upload)}
	s.Legacy, s.Course, s.Module = true, need(&err, "courseid", o.Course), need(&err, "cmid", o.Module)
	s.Quiz, s.Archive = need(&err, "quizid", o.Quiz), need(&err, "archive_filename", o.Archive)
	j := need(&err, "task_archive_quiz_attempts", o.Job)
	if j.Sections == nil {
		j.Sections = j.Report
	}
	if err == nil {
		j.Attached = j.Attached || flag(truth(j.Sections["attachments"]))
		err = s.take(&j, j.Sections)
	}
	for _, b := range o.Backups {
		s.Backups = append(s.Backups, Backup{b.ID, source.SafeName(b.File), b.URL})
	}
	return s.complete(text, token, err)
}

// take takes what both versions have.
func (s *Spec) take(j *orderedJob, sections map[string]any) (err error) {
	s.Page.Paper = need(&err, "paper_format", j.Paper)
	s.File = need(&err, "filename_pattern", j.File)
	if j.Folder != nil || !s.Legacy {
		s.Folder = need(&err, "foldername_pattern", j.Folder)
	}
	s.Attempts = slices.Compact(slices.Sorted(slices.Values(j.Attempts)))
	s.Metadata, s.Attached, s.HTML = bool(j.Metadata), bool(j.Attached), bool(j.HTML)
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		if truth(sections[name]) {
			s.Sections = append(s.Sections, name)
		}
	}
	if i, ok := j.Images.(map[string]any); ok && err == nil {
		number := func(key string) int { n, _ := i[key].(float64); return int(n) }
		s.Page.Images = &pdf.Images{Width: number("width"), Height: number("height"), Quality: number("quality")}
	}
	return err
}

// complete checks an order and names its job: the same order has the same UUID, so that one whose answer was lost may
// be sent again.
func (s Spec) complete(text []byte, token string, err error) (Spec, string, error) {
	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8, RFC 9562 section 5.8
	s.UUID = fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	s.Archive = source.SafeName(strings.TrimSuffix(s.Archive, ".zip"))
	if err == nil {
		err = s.check(token)
	}
	return s, token, err
}

func (s *Spec) check(token string) error {
	switch {
	case token == "" || strings.ContainsAny(token, " \r\n"):
		return invalid("wstoken is not a token")
	case len(s.Attempts) == 0 && len(s.Backups) == 0:
		return invalid("attemptids is empty")
	case len(s.Attempts) > maxAttempts:
		return invalid("attemptids has more than %d attempts", maxAttempts)
	case len(s.Attempts) > 0 && s.Attempts[0] < 1:
		return invalid("attemptids has %d", s.Attempts[0])
	}
	if err := s.Page.Check(); err != nil {
		return invalid("%v", err)
	}
	base, err := url.Parse(s.Moodle.Base)
	if err != nil || base.Scheme != "https" && base.Scheme != "http" || base.Host == "" || base.User != nil {
		return invalid("base_url is not an address of a Moodle")
	}
	addresses := []string{s.Moodle.Service, s.Moodle.Upload}
	for _, b := range s.Backups {
		addresses = append(addresses, b.URL)
	}
	for _, one := range addresses {
		if !below(base, one) {
			return invalid("an address is not below base_url: the token is sent to the Moodle alone")
		}
	}
	return nil
}

// below reports whether an address is of the Moodle.
func below(base *url.URL, address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != base.Scheme || u.Host != base.Host || u.User != nil {
		return false
	}
	prefix := strings.TrimSuffix(base.Path, "/") + "/"
	return strings.HasPrefix(path.Clean(u.Path), prefix)
}
