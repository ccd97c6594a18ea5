package ingesthttp_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/servertest"
)

// parts writes a form with the boundary B. A name with a colon is a file: "file:map.tif".
func parts(pairs ...string) string {
	var b strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		name, file, isFile := strings.Cut(pairs[i], ":")
		if isFile {
			file = fmt.Sprintf("; filename=%q\r\nContent-Type: application/octet-stream", file)
		}
		fmt.Fprintf(&b, "--B\r\nContent-Disposition: form-data; name=%q%s\r\n\r\n%s\r\n", name, file, pairs[i+1])
	}
	return b.String() + "--B--\r\n"
}

func (w *harness) merritt(path, body string) *http.Request {
	r := w.Request(http.MethodPost, path, body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=B")
	return r
}

// TestMerrittForms sends the forms of Merritt's depositors: the file before the fields, as their programs do.
func TestMerrittForms(t *testing.T) {
	w := open(t, nil, nil)
	full := parts("file:map.tif", "the bytes", "submitter", "ann/Ann Arbor", "profile", "", "type", "file",
		"creator", "A. Person", "title", "Ü", "date", "1857", "localIdentifier", "a;b", "note", "n",
		"notification", "ann@example.org", "digestType", "md5", "digestValue", "0123", "size", "9",
		"responseForm", "json", "notificationFormat", "xml", "DC.subject", "maps", "DC.Subject", "post\r\nroads",
		"DC.nonsense", "x",
		"DataCite.resourceType", "dataset", "retainTargetURL", "true", "embargoEndDate", "2031-12-31", "utf8", "yes")
	answer, text := w.Ask(w.merritt("/submitobject", full))
	var got map[string]map[string]string
	if err := json.Unmarshal([]byte(text), &got); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %v", answer.Status, text, err)
	}
	state := got["bat:batchState"]
	if state["bat:batchStatus"] != "QUEUED" || state["bat:userAgent"] != "ann/Ann Arbor" ||
		state["bat:batchID"] == "" ||
		state["xmlns:bat"] != "http://uc3.cdlib.org/ontology/mrt/ingest/batch" || state["bat:submissionDate"] == "" {
		t.Errorf("got %s", text)
	}
	want := client.Submission{Type: "file", Submitter: "ann/Ann Arbor", Title: "Ü", Creator: "A. Person", Date: "1857",
		LocalIDs: []string{"a;b"}, DigestType: "md5", DigestValue: "0123", Notification: "ann@example.org", Note: "n",
		Update: true, DublinCore: map[string][]string{"subject": {"maps", "post roads"}}, ResourceType: "Dataset",
		RetainTarget: true, Embargo: "2031-12-31"}
	if diff := cmp.Diff(want, w.ingest.got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if !slices.Equal(w.ingest.names, []string{"map.tif"}) || w.ingest.texts[0] != "the bytes" {
		t.Errorf("got %q %q", w.ingest.names, w.ingest.texts)
	}
	servertest.CheckHeaders(t, answer)
}

// TestMerrittAddresses asks at every address: what is an update, and what identifies the object.
func TestMerrittAddresses(t *testing.T) {
	w := open(t, nil, nil)
	for path, update := range map[string]bool{"/submitobject": true, "/updateobject": true, "/addobject": false,
		"/submit": true, "/update": true, "/add": false} {
		for _, id := range []string{"", "/ark:/99999/fk4abc"} {
			answer, text := w.Ask(w.merritt(path+id, parts("file:a.txt", "a", "file:b.txt", "b")))
			if answer.StatusCode != http.StatusOK || w.ingest.got.Update != update ||
				w.ingest.got.PrimaryID != strings.TrimPrefix(id, "/") || !slices.Equal(w.ingest.names,
				[]string{"a.txt", "b.txt"}) {
				t.Errorf("%s: got %s, %+v of %q: %s", path+id, answer.Status, w.ingest.got, w.ingest.names, text)
			}
		}
	}
	for _, path := range []string{"/object/ingest", "/object/update"} {
		if answer, text := w.Ask(w.merritt(path, parts("file:a.txt", "a"))); answer.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s: %s", path, answer.Status, text)
		}
	}
}

// TestMerrittTypes maps the words for types.
func TestMerrittTypes(t *testing.T) {
	w := open(t, nil, nil)
	for word, want := range map[string]string{
		"": "", "file": "file", "container": "container", "object-manifest": "object-manifest",
		"manifest":       "object-manifest",
		"batch-manifest": "batch-manifest", "container-batch-manifest": "container-batch-manifest",
		"single-file-batch-manifest": "single-file-batch-manifest", "batchManifest": "batch-manifest",
		"batchManifestFile": "single-file-batch-manifest", "batchManifestContainer": "container-batch-manifest",
		"mrt-single-file-batch-manifest": "single-file-batch-manifest", "nonsense": "nonsense",
	} {
		w.Ask(w.merritt("/add", parts("file:a", "a", "type", word)))
		if w.ingest.got.Type != want {
			t.Errorf("%q: got %q, want %q", word, w.ingest.got.Type, want)
		}
	}
}

// TestMerrittAnswers reads answers in each form, and asks for them by the field and by Accept.
func TestMerrittAnswers(t *testing.T) {
	w := open(t, nil, nil)
	for _, c := range []struct{ field, accept, media, has string }{
		{"", "", "text/xml; charset=utf-8", "<bat:batchStatus>QUEUED</bat:batchStatus>"},
		{"xml", "application/json", "text/xml; charset=utf-8", "<bat:jobStates/>"},
		{"json", "", "application/json", `"bat:jobStates":""`},
		{"", "application/json", "application/json", `"bat:batchStatus":"QUEUED"`},
		{"anvl", "", "text/x-anvl; charset=utf-8", "batchStatus: QUEUED\n"},
		{"turtle", "", "text/xml; charset=utf-8", "<bat:batchID>"},
		{"", "application/json, text/plain, */*", "application/json", `"bat:batchStatus":"QUEUED"`},
		{"", "text/html, text/x-anvl;q=0.8, application/xml;q=0.5", "text/x-anvl; charset=utf-8",
			"batchStatus: QUEUED\n"},
		{"", "application/json;q=0.1, text/xml", "text/xml; charset=utf-8", "<bat:batchID>"},
		{"", "*/*", "text/xml; charset=utf-8", "<bat:batchID>"},
	} {
		r := w.merritt("/add", parts("responseForm", c.field, "file:a", "a", "submitter", "<&\">"))
		r.Header.Set("Accept", c.accept)
		answer, text := w.Ask(r)
		if answer.Header.Get("Content-Type") != c.media || !strings.Contains(text, c.has) {
			t.Errorf("%+v: got %s: %s", c, answer.Header.Get("Content-Type"), text)
		}
		if strings.Contains(c.media, "xml") {
			var v struct {
				Agent string `xml:"userAgent"`
			}
			if err := xml.Unmarshal([]byte(text), &v); err != nil || v.Agent != `<&">` {
				t.Errorf("%s: %q, %v", text, v.Agent, err)
			}
		}
	}
}

// TestMerrittRefusals sends forms that cannot be taken: the answer names the fault in Merritt's form, and nothing stays
// staged.
func TestMerrittRefusals(t *testing.T) {
	w := open(t, func(o *options) { o.MaxUpload = 200_000 }, nil)
	var many []string
	for i := range 1100 {
		many = append(many, fmt.Sprint("x", i), "y")
	}
	whole := parts("title", "A", "file:a", "bytes")
	for name, c := range map[string]struct {
		body   string
		status int
		has    string
	}{
		"control":               {whole, 200, "batchState"},
		"no file":               {parts("title", "A"), 400, "exc:error>the form has no file"},
		"no chosen file":        {parts("file:", ""), 400, "no file"},
		"a file without a name": {parts("file:", "bytes"), 400, "a file has no name"},
		"the file as a field":   {parts("file", "bytes"), 400, "has no file name"},
		"a field twice":         {parts("title", "A", "title", "B", "file:a", "b"), 400, "twice"},
		"two identifiers": {parts("object", "ark:/1/a", "primaryIdentifier", "ark:/1/b", "file:a", "b"), 400,
			"two primary"},
		"a size that is none":     {parts("size", "-3", "file:a", "b"), 400, "no number of bytes"},
		"another size":            {parts("file:a", "bytes", "size", "7"), 400, "5 bytes, the form has 7"},
		"a large field":           {parts("note", strings.Repeat("x", 70_000), "file:a", "b"), 413, "larger than"},
		"a large file":            {parts("file:a", strings.Repeat("x", 300_000)), 413, "larger than"},
		"many parts":              {parts(many...), 400, "more than 1000 parts"},
		"cut within the file":     {strings.TrimSuffix(whole, "\r\n--B--\r\n"), 400, "exc:"},
		"cut within the boundary": {strings.TrimSuffix(whole, "B--\r\n"), 400, "exc:"},
		"empty":                   {"", 400, "exc:"},
		"a part without a name": {"--B\r\nContent-Type: text/plain\r\n\r\nx\r\n--B--\r\n", 400,
			"a part of the form has no name"},
	} {
		t.Run(name, func(t *testing.T) {
			w.ingest.got = client.Submission{}
			answer, text := w.Ask(w.merritt("/submitobject", c.body))
			if answer.StatusCode != c.status || !strings.Contains(text, c.has) {
				t.Errorf("got %s, want %d with %q: %s", answer.Status, c.status, c.has, text)
			}
			if c.status != 200 && !w.ingest.discarded {
				t.Error("what was staged was not discarded")
			}
		})
	}
	r := w.merritt("/submitobject", whole)
	r.Header.Set("Content-Type", "text/plain")
	if answer, text := w.Ask(r); answer.StatusCode != http.StatusUnsupportedMediaType ||
		!strings.Contains(text, "<exc:error>a submission is multipart/form-data") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	w.ingest.fail = job.Errorf(job.Invalid, "submit", "", "there is no profile <x>")
	answer, text := w.Ask(w.merritt("/submitobject", parts("file:a", "b", "responseForm", "json")))
	if answer.StatusCode != 400 || !strings.Contains(text, `"exc:error":"there is no profile`) {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	w.ingest.fail = job.Errorf(job.Internal, "submit", "", "secret")
	answer, text = w.Ask(w.merritt("/submitobject", parts("file:a", "b")))
	if answer.StatusCode != 500 || strings.Contains(text, "secret") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
}

// TestMerrittERC takes the description from the field erc where no other field has it.
func TestMerrittERC(t *testing.T) {
	w := open(t, nil, nil)
	record := "erc:\r\nwho: Proust, Marcel\r\nwhat: Remembrance\r\nwhen: 1922\r\n"
	w.Ask(w.merritt("/add", parts("file:a", "a", "title", "Mine", "erc", record, "DataCite.resourceType", "Film")))
	got := w.ingest.got
	if got.Title != "Mine" || got.Creator != "Proust, Marcel" || got.Date != "1922" ||
		got.ResourceType != "Audiovisual/Film" {
		t.Errorf("got %+v", got)
	}
}

// TestMerrittKeys sends a form again under its key, and another one. Without a key each makes a batch, the control.
func TestMerrittKeys(t *testing.T) {
	w := open(t, nil, nil)
	ask := func(title, key string) (status int, at, text string) {
		r := w.merritt("/submitobject", parts("file:a", "a", "title", title, "responseForm", "json"))
		if key != "" {
			r.Header.Set("Idempotency-Key", key)
		}
		answer, text := w.Ask(r)
		return answer.StatusCode, answer.Header.Get("Location"), text
	}
	_, first, text := ask("A", "k1")
	if first == "" {
		t.Fatal(text)
	}
	if status, again, text := ask("A", "k1"); status != 200 || again != first {
		t.Errorf("sent again: got %d %s, want %s: %s", status, again, first, text)
	}
	if status, _, text := ask("B", "k1"); status != 409 || !strings.Contains(text, `"exc:status":"conflict"`) {
		t.Errorf("another one: got %d: %s", status, text)
	}
	if _, at, _ := ask("A", ""); at == first || at == "" {
		t.Errorf("without a key: got %s", at)
	}
	r := w.merritt("/submitobject", parts("file:a", "a"))
	r.Header.Set("Idempotency-Key", strings.Repeat("k", 300))
	if answer, text := w.Ask(r); answer.StatusCode != http.StatusBadRequest ||
		!strings.Contains(text, "<exc:status>"+string(job.Invalid)+"</exc:status>") {
		t.Errorf("a key that is too long: got %s: %s", answer.Status, text)
	}
}
