package replay_test

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/source/moodle/replay"
)

// TestAnswers: the recorded answers are small, and have no address but invented ones.
func TestAnswers(t *testing.T) {
	total := int64(0)
	err := fs.WalkDir(os.DirFS("answers"), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		if strings.HasSuffix(name, ".mbz") {
			return nil
		}
		text, err := os.ReadFile("answers/" + name)
		for rest := string(text); err == nil; {
			_, after, found := strings.Cut(rest, "://")
			if !found {
				break
			}
			rest = after
			host, _, _ := strings.Cut(strings.ReplaceAll(rest, `\`, "/"), "/")
			host = strings.TrimRight(strings.SplitN(host, `"`, 2)[0], ".,")
			if host != "127.0.0.1:18090" && !strings.Contains(host, "example.") && host != "docs.moodle.org" &&
				host != "cdn.jsdelivr.net" { // a script that pages of Moodle load; documents of archives do not
				t.Errorf("%s has the address %s", name, host)
			}
		}
		return err
	})
	if err != nil || total == 0 || total > 256<<10 {
		t.Errorf("%d bytes, %v", total, err)
	}
}

// TestListen: the server listens on this machine only, and ends with its context.
func TestListen(t *testing.T) {
	s, err := replay.New()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, done, err := s.Listen(ctx, 0)
	if err != nil || !strings.HasPrefix(address, "http://127.0.0.1:") {
		t.Fatalf("got %q, %v", address, err)
	}
	answer, err := http.PostForm(address+"/webservice/rest/server.php", url.Values{
		"wstoken": {replay.Token}, "wsfunction": {"core_webservice_get_site_info"}, "moodlewsrestformat": {"json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.Contains(string(text), `"siteurl":"`+address+`"`) {
		t.Errorf("got %.200s, %v", text, err)
	}
	unknown := url.Values{"wstoken": {replay.Token}, "wsfunction": {"core_course_get_courses_by_field"},
		"moodlewsrestformat": {"json"}, "field": {"id"}, "value": {"99"}}
	if answer, err = http.PostForm(address+"/webservice/rest/server.php", unknown); err != nil {
		t.Fatal(err)
	}
	text, err = io.ReadAll(answer.Body)
	answer.Body.Close()
	if err != nil || !strings.HasPrefix(string(text), `{"courses":[]`) { // as Moodle; its other functions refuse it
		t.Errorf("an unknown course: got %.200s, %v", text, err)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("the server did not end")
	}
	if _, err := http.Get(address); err == nil {
		t.Error("it still answers")
	}
	if _, _, err := s.Listen(t.Context(), -1); err == nil {
		t.Error("a wrong port is accepted")
	}
}
