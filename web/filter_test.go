package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestFiltersStay: the form of the list sends every filter of its address again, so that a change of one keeps the
// others.
func TestFiltersStay(t *testing.T) {
	w := servertest.Open(t, nil, nil, part)
	batch := string(w.Post(engine.Order{Group: "maps"}).ID)
	for given, want := range map[string]string{
		"outcome=failed&outcome=timed-out":            "",
		"outcome=failed,timed-out":                    "outcome=failed&outcome=timed-out",
		"outcome=failed&state=Lost":                   "",
		"state=Lost&state=Held&cause=a&cause=b":       "",
		"kind=test.letter&key=k%261&limit=7":          "",
		"group=maps&owner=ann&tag=a%3Db&order=oldest": "",
		"ended=false&worker=w&parent=" + batch:        "",
		"cause=a,b&after=3":                           "cause=a&cause=b",
	} {
		if want == "" {
			want = given
		}
		expected, err := url.ParseQuery(want)
		if err != nil {
			t.Fatal(err)
		}
		answer, page := w.AskPage(w.Request(http.MethodGet, "/jobs?"+given, ""))
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s: %s", given, answer.Status, page)
			continue
		}
		if diff := cmp.Diff(expected, servertest.Sent(page, `<form class="filters"`),
			cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: %s", given, diff)
		}
	}
}
