package server_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestBriefPages: pages of large jobs end early, with a cursor, whether specs and data are left out or not. The pages
// of both lists are the same, and have each job once. A page with a small limit is the control: it does not end early.
func TestBriefPages(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	var want []job.ID
	for range 40 {
		j := w.Post(engine.Order{Spec: json.RawMessage(`"` + strings.Repeat("x", 512<<10) + `"`)})
		want = append([]job.ID{j.ID}, want...)
	}
	walk := func(q url.Values) (ids []job.ID, sizes []int) {
		for {
			answer, text := w.Ask(w.Request(http.MethodGet, "/api/v1/jobs?"+q.Encode(), ""))
			var page api.Page
			if err := json.Unmarshal([]byte(text), &page); err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("got %s, %v", answer.Status, err)
			}
			for i := range page.Jobs {
				ids = append(ids, page.Jobs[i].ID)
				if brief := q.Get("brief") == "true"; brief != (page.Jobs[i].Spec == nil) {
					t.Fatalf("%s has a spec: %t", page.Jobs[i].ID, brief)
				}
			}
			sizes = append(sizes, len(page.Jobs))
			if page.Next == "" {
				return ids, sizes
			}
			q.Set("after", page.Next)
		}
	}
	var sizes [][]int
	for _, brief := range []string{"true", "false"} {
		for _, limit := range []string{"1000", "7"} {
			ids, of := walk(url.Values{"brief": {brief}, "limit": {limit}})
			if !slices.Equal(ids, want) {
				t.Errorf("brief %s, limit %s: got %d jobs %v, want %v", brief, limit, len(ids), ids, want)
			}
			sizes = append(sizes, of)
		}
	}
	if !slices.Equal(sizes[0], sizes[2]) || !slices.Equal(sizes[1], sizes[3]) || len(sizes[0]) < 3 || sizes[1][0] != 7 {
		t.Errorf("the pages have %v jobs", sizes)
	}
}
