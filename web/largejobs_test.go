package web_test

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
)

var (
	nextLink = regexp.MustCompile(`<a rel="next" href="([^"]+)"`)
	jobLink  = regexp.MustCompile(`<th scope="row"[^>]*><a href="(/jobs/let_[^"]+)"`)
)

// TestPagesOfLargeJobs: the links of the list lead to each job once, although a page of large jobs ends early.
func TestPagesOfLargeJobs(t *testing.T) {
	w := office(t)
	var want []string
	for range 20 {
		j, err := w.Submit(t.Context(), engine.Order{Kind: "test.letter",
			Spec: json.RawMessage(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)})
		if err != nil {
			t.Fatal(err)
		}
		want = append([]string{"/jobs/" + string(j.ID)}, want...)
	}
	var got []string
	pages := 0
	for path := "/jobs"; path != ""; pages++ {
		answer, page := w.AskPage(w.Request(http.MethodGet, path, ""))
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %s: %s", path, answer.Status, page)
		}
		for _, m := range jobLink.FindAllStringSubmatch(page, -1) {
			got = append(got, m[1])
		}
		path = ""
		if m := nextLink.FindStringSubmatch(page); m != nil {
			path = html.UnescapeString(m[1])
		}
	}
	if !slices.Equal(got, want) || pages < 3 {
		t.Errorf("%d pages have %v, want %v", pages, got, want)
	}
}
