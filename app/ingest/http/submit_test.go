package ingesthttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

func TestSubmission(t *testing.T) {
	w := open(t, nil, nil)
	n := 7
	s := client.Submission{Type: "file", Title: "Ü", Submitter: "ann", Key: "k1", LocalIDs: []string{"a", "b"},
		Update: true, Priority: &n, Filename: "x.tif", DublinCore: map[string][]string{"subject": {"maps"}},
		ResourceType: "Dataset", Embargo: "none", RetainTarget: true}
	j, err := w.Client.Submit(t.Context(), s, strings.NewReader("the payload"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, w.ingest.got); diff != "" || w.ingest.bytes != "the payload" {
		t.Errorf("got %q, -sent +got:\n%s", w.ingest.bytes, diff)
	}
	again, err := w.Client.Submit(t.Context(), s, strings.NewReader("the payload"))
	if err != nil || again.ID != j.ID {
		t.Errorf("the same key: got %s and %s, %v", j.ID, again.ID, err)
	}
	report, err := w.Client.BatchReport(t.Context(), j.ID, true)
	if err != nil || string(report) != "report on "+string(j.ID)+"\n" {
		t.Errorf("got %q, %v", report, err)
	}
	if report, err = w.Client.BatchReport(t.Context(), j.ID, false); err != nil ||
		!strings.HasPrefix(string(report), `{"batch":`) {
		t.Errorf("got %q, %v", report, err)
	}
	if list, err := w.Client.Objects(t.Context(), client.ObjectQuery{ARK: "ark:/1/2", Limit: 3}); err != nil ||
		list.Objects == nil || len(list.Objects) > 0 {
		t.Errorf("got %+v, %v", list, err)
	}
}

// form writes a multipart body with the boundary B; parts are name, value pairs.
func form(parts ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(parts); i += 2 {
		name := parts[i]
		file := ""
		if name == "payload" {
			file = `; filename="sent.bin"`
		}
		fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=\"%s\"%s\r\n\r\n%s\r\n", name, file, parts[i+1])
	}
	return b.String() + "--B--\r\n"
}

// TestForms submits forms as browsers and attackers write them; the payload counts only if its form is whole.
func TestForms(t *testing.T) {
	w := open(t, func(o *options) { o.MaxUpload = 100_000 }, nil)
	many := []string{}
	for i := range 70 {
		many = append(many, "local_ids", fmt.Sprint(i))
	}
	for name, c := range map[string]struct {
		body, header string
		status       int
	}{
		"control": {form("title", "A", "local_ids", "a;b", "update", "true", "priority", "3", "embargo", "none",
			"resource_type", "Dataset", "retain_target", "true", "payload", "bytes"), "", 201},
		"bad target flag":     {form("retain_target", "perhaps", "payload", "b"), "", 400},
		"key in the header":   {form("payload", "bytes"), "k9", 201},
		"json part":           {form("submission", `{"title":"A"}`, "payload", "bytes"), "", 201},
		"empty payload":       {form("payload", ""), "", 201},
		"no payload":          {form("title", "A"), "", 400},
		"payload first":       {form("payload", "bytes", "title", "A"), "", 400},
		"two payloads":        {form("payload", "a", "payload", "b"), "", 400},
		"unknown field":       {form("nonsense", "A", "payload", "b"), "", 400},
		"field twice":         {form("title", "A", "title", "B", "payload", "b"), "", 400},
		"bad json":            {form("submission", `{"title":`, "payload", "b"), "", 400},
		"unknown in json":     {form("submission", `{"titel":"A"}`, "payload", "b"), "", 400},
		"bad number":          {form("priority", "high", "payload", "b"), "", 400},
		"bad flag":            {form("update", "perhaps", "payload", "b"), "", 400},
		"two keys":            {form("key", "k1", "payload", "b"), "k2", 400},
		"long key":            {form("payload", "b"), strings.Repeat("k", 300), 400},
		"large field":         {form("note", strings.Repeat("x", 70_000), "payload", "b"), "", 413},
		"large payload":       {form("payload", strings.Repeat("x", 200_000)), "", 413},
		"many parts":          {form(append(many, "payload", "b")...), "", 400},
		"cut in the payload":  {strings.TrimSuffix(form("payload", "bytes"), "\r\n--B--\r\n"), "", 400},
		"cut in the boundary": {strings.TrimSuffix(form("payload", "bytes"), "B--\r\n"), "", 400},
		"cut in a header":     {"--B\r\nContent-Disposi", "", 400},
		"no parts":            {"--B--\r\n", "", 400},
		"empty":               {"", "", 400},
		"no name":             {"--B\r\nContent-Disposition: form-data\r\n\r\nx\r\n--B--\r\n", "", 400},
		"huge part header":    {"--B\r\nX-A: " + strings.Repeat("x", 90_000) + "\r\n\r\nx\r\n--B--\r\n", "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.Request(http.MethodPost, "/api/v1/ingest/submissions", c.body)
			r.Header.Set("Content-Type", "multipart/form-data; boundary=B")
			if c.header != "" {
				r.Header.Set("Idempotency-Key", c.header)
			}
			answer, text := w.Ask(r)
			if answer.StatusCode != c.status {
				t.Errorf("got %s, want %d: %s", answer.Status, c.status, text)
			}
			servertest.CheckHeaders(t, answer)
		})
	}
}

func TestWithoutIngest(t *testing.T) {
	w := open(t, func(o *options) { o.Ingest, o.Maintenance = nil, nil }, nil)
	w.Problem(w.Request(http.MethodGet, "/api/v1/ingest/objects", ""), http.StatusNotFound, job.NotFound)
	w.Problem(w.Request(http.MethodPost, "/api/v1/admin/verify", ""), http.StatusNotFound, job.NotFound)
}
