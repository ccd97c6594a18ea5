package archiveserve_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/internal/ziptest"
)

const (
	quizToken = "the-token-of-the-Moodle" // that this server accepts
	siteToken = "0123456789abcdef"        // that the Moodle accepts
)

// moodle is a Moodle with the plugin archivingmod_quiz: one attempt, whose archive it receives.
type moodle struct {
	*httptest.Server
	t *testing.T

	mu       sync.Mutex // guards the rest
	upload   []byte
	received []byte
	times    int // that it received one
}

func newMoodle(t *testing.T) *moodle {
	m := &moodle{t: t}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// ServeHTTP answers the functions of the plugin, and uploads.
func (m *moodle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	say := func(answer any) { _ = json.NewEncoder(w).Encode(answer) }
	if r.URL.Path == "/webservice/upload.php" {
		f, head, err := r.FormFile("file_1")
		if err != nil || r.FormValue("token") != siteToken {
			m.t.Errorf("upload: %v", err)
			return
		}
		m.upload, _ = io.ReadAll(f)
		say([]any{map[string]any{"component": "user", "contextid": 62, "userid": "23", "filearea": "draft",
			"filename": head.Filename, "filepath": "/", "itemid": 8}})
		return
	}
	switch name := strings.TrimPrefix(r.FormValue("wsfunction"), "archivingmod_quiz_"); {
	case r.FormValue("wstoken") != siteToken:
		say(map[string]string{"exception": "moodle_exception", "errorcode": "invalidtoken", "message": "Invalid token"})
	case r.FormValue("taskid") == "":
		say(map[string]string{"exception": "x", "errorcode": "invalidparameter", "message": "Missing parameter"})
	case name == "generate_attempt_report":
		say(map[string]any{"status": "OK", "attemptid": 2, "foldername": "ann/2", "filename": "attempt-2",
			"report": "<!DOCTYPE html><title>Quiz</title><p>Answer", "attachments": []any{}})
	case name == "process_uploaded_artifact":
		sum := sha256.Sum256(m.upload)
		if r.FormValue("artifact_sha256sum") != hex.EncodeToString(sum[:]) {
			say(map[string]string{"status": "E_CHECKSUM_MISMATCH"})
			return
		}
		m.received = m.upload
		m.times++
		say(map[string]string{"status": "OK"})
	default:
		say(map[string]string{"status": "OK"})
	}
}

// archives is how many archives the Moodle received.
func (m *moodle) archives() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.times
}

// archive gives the files of the archive that the Moodle received; none yet.
func (m *moodle) archive() map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.received == nil {
		return nil
	}
	return ziptest.Files(m.t, m.received)
}

// order sends an order to the quiz archive worker at an address, and gives the status of the answer.
func (m *moodle) order(address string) int {
	m.t.Helper()
	text, err := json.Marshal(map[string]any{
		"api_version": 1, "taskid": 7,
		"moodle_api": map[string]string{"wstoken": siteToken, "base_url": m.URL,
			"webservice_url": m.URL + "/webservice/rest/server.php", "upload_url": m.URL + "/webservice/upload.php"},
		"job": map[string]any{"attemptids": []int{2}, "report_sections": map[string]string{"header": "1"},
			"paper_format": "A4", "archive_filename": "quiz", "foldername_pattern": "${username}/${attemptid}",
			"filename_pattern": "attempt-${attemptid}", "image_optimize": false, "fetch_metadata": false,
			"fetch_attachments": true, "keep_html_files": false},
	})
	must(m.t, err)
	answer, err := http.Post(address+"/archive/archivingmod_quiz", "application/json", bytes.NewReader(text))
	must(m.t, err)
	must(m.t, answer.Body.Close())
	return answer.StatusCode
}

// quizConfig is the part of archive.yaml for a Moodle.
func (f *fixture) quizConfig(m *moodle) string {
	file := filepath.Join(f.t.TempDir(), "token")
	must(f.t, os.WriteFile(file, []byte(quizToken), 0o600))
	return fmt.Sprintf("quiz_worker: {token_files: [%s], moodles: [%q], allow_networks: [127.0.0.0/8]}\n"+
		"presets: {default: {settings: {sign: false}}}\n", file, m.URL)
}

// TestQuizWorker: a Moodle orders with the token in the address, and receives its archive with PDF files; without the
// token it is refused. After SIGHUP another token applies.
func TestQuizWorker(t *testing.T) {
	f, m := newFixture(t), newMoodle(t)
	f.configure(f.quizConfig(m))
	f.remote, f.quiz = true, "127.0.0.1:0"
	must(t, f.start())
	defer f.printing(capitals{})()
	address := f.server.Address("quizworker")
	if code := m.order(address); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
	if code := m.order(address + "/" + quizToken); code != http.StatusOK {
		t.Fatalf("got %d", code)
	}
	f.until("an archive in the Moodle", func() bool { return m.archive() != nil })
	if text := m.archive()["attempts/ann/2/attempt-2.pdf"]; !strings.Contains(text, "<P>ANSWER") {
		t.Errorf("got %v", m.archive())
	}
	f.configure(strings.Replace(f.quizConfig(m), m.URL, "https://other.example.org", 1))
	must(t, f.app.Reload())
	if code := m.order(address + "/" + quizToken); code != http.StatusBadRequest {
		t.Errorf("a Moodle that may not order: %d", code)
	}
}

// TestQuizWorkerSettings: the server does not start if nothing prints, or if every caller may order.
func TestQuizWorkerSettings(t *testing.T) {
	f := newFixture(t)
	f.configure("presets: {default: {settings: {sign: false}}}\n")
	f.quiz = "127.0.0.1:0"
	if err := f.start(); err == nil || !strings.Contains(err.Error(), "archive.pdf.workers") {
		t.Errorf("got %v", err)
	}
	short := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(short, []byte("short"), 0o600))
	f.configure("presets: {default: {settings: {sign: false}}}\nquiz_worker: {token_files: [" + short + "]}\n")
	if err := f.start(); err == nil || !strings.Contains(err.Error(), "16 characters") {
		t.Errorf("got %v", err)
	}
	f.quiz = ""
	f.configure("presets: {default: {settings: {sign: false}}}\n")
	must(t, f.start())
	if address := f.server.Address("quizworker"); address != "" {
		t.Errorf("control: got %s", address)
	}
}

// printable reports whether this machine prints PDF files.
func printable(t *testing.T) bool {
	t.Helper()
	box, err := sandbox.Open(t.Context(), sandbox.Options{Tier: sandbox.Require, Name: "stagepost-pdfserve"})
	if err != nil {
		return false
	}
	_, err = pdf.Find(box, pdf.Options{})
	must(t, box.Close())
	return err == nil
}
