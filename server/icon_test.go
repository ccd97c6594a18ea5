package server_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/server/servertest"
)

// iconLink is the line of a page that names the icon.
const iconLink = `<link rel="icon" type="image/svg+xml" href="/assets/icon.svg">`

// TestEveryPageHasTheIcon reads the templates of all pages that use our style sheets. A server without the pages of
// operators has the icon as well, and its policy lets browsers load it.
func TestEveryPageHasTheIcon(t *testing.T) {
	found := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && name == filepath.Join("..", "bin"): // tools of the tests
			return fs.SkipDir
		case err != nil || d.IsDir() || filepath.Ext(name) != ".html":
			return err
		}
		text, err := os.ReadFile(name)
		if page := string(text); strings.Contains(page, "<head>") && strings.Contains(page, `href="/assets/`) {
			found++
			if !strings.Contains(page, iconLink) {
				t.Errorf("%s has no icon", name)
			}
		}
		return err
	})
	if err != nil || found < 6 {
		t.Errorf("%d pages, %v", found, err)
	}
	w := servertest.Open(t, nil, nil)
	answer, icon := w.Ask(w.Request(http.MethodGet, "/assets/icon.svg", ""))
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(icon, "<svg") {
		t.Errorf("the icon: %s %.40q", answer.Status, icon)
	}
	answer, page := w.Ask(w.Request(http.MethodGet, "/api/v1/docs", ""))
	if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(page, iconLink) ||
		!strings.Contains(policy, "img-src 'self'") {
		t.Errorf("the page of the API has the policy %q and is %.300s", policy, page)
	}
}
