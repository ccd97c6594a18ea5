package tus_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/tus"
	"github.com/stagepost/stagepost/store/crash/power"
)

// A power cut at any point loses no byte that was confirmed, and makes none count that did not come. The controls leave
// out one sync each.
func TestPowerCut(t *testing.T) {
	power.CheckEach(t, 5, cutUpload, "*.data", "*.json.new", "uploads", "above")
}

// cutUpload sends an upload in two pieces, the second with a checksum, and cuts the power at each point.
func cutUpload(t *testing.T, names bool, ignore ...string) (cuts int, wrong []string) {
	t.Helper()
	d := power.Mount(t, power.Options{Every: true, Names: names, Ignore: ignore})
	sent := content(1000)
	type point struct{ image, offset int }
	var confirmed []point
	note := func(offset int) { confirmed = append(confirmed, point{len(d.Images(t)), offset}) }
	w := open(t, tus.Options{Dir: filepath.Join(d.Dir, "above", "uploads")})
	at := w.create(len(sent))
	note(0)
	w.patch(http.StatusNoContent, at, 0, bytes.NewReader(sent[:400]))
	note(400)
	w.patch(http.StatusNoContent, at, 400, bytes.NewReader(sent[400:]), "Upload-Checksum", checksum("sha1", sent[400:]))
	note(len(sent))
	images := append(d.Images(t), d.Image(t))
	for i, image := range images {
		least := -1
		for _, p := range confirmed {
			if i >= p.image {
				least = p.offset
			}
		}
		if err := uploadAfter(t, filepath.Join(image, "above", "uploads"), at, sent, least); err != nil {
			wrong = append(wrong, fmt.Sprintf("cut %d of %d: %v", i, len(images), err))
		}
	}
	return len(images), wrong
}

// uploadAfter returns the fault of an upload after a power cut; least is how much of it was confirmed, -1 if it was
// not even made.
func uploadAfter(t *testing.T, dir, at string, sent []byte, least int) error {
	t.Helper()
	s, err := tus.New(tus.Options{Dir: dir, Owner: func(*http.Request) string { return "" }, Clock: time.Now})
	if err != nil {
		return err
	}
	defer s.Close()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, at, nil)
	r.Header.Set("Tus-Resumable", "1.0.0")
	answer := httptest.NewRecorder()
	s.Handler("/files").ServeHTTP(answer, r)
	if answer.Code == http.StatusNotFound && least < 0 {
		return nil
	}
	offset, err := strconv.Atoi(answer.Header().Get("Upload-Offset"))
	if err != nil || answer.Code != http.StatusOK {
		return fmt.Errorf("%d: %s", answer.Code, answer.Body)
	}
	f, err := os.Open(filepath.Join(dir, filepath.Base(at)+".data"))
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil || offset < least || offset > len(text) || !bytes.Equal(text[:offset], sent[:offset]) {
		return fmt.Errorf("it stands at %d with %d bytes, %d were confirmed, %w", offset, len(text), least, err)
	}
	return nil
}
