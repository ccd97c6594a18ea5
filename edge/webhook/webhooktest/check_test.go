package webhooktest

import (
	"net/http"
	"strings"
	"testing"
)

const good = `{"specversion":"1.0","id":"a/1","source":"stagepost://b/ingest","type":"io.github.stagepost.ingest.ping",` +
	`"subject":"job_1","time":"2026-11-23T16:00:00.5Z","datacontenttype":"application/json","data":{"n":1}}`

func header(media, id string) http.Header {
	return http.Header{"Content-Type": {media}, "Webhook-Id": {id}}
}

// TestCheck changes an event in one way each; each change is found. The first case is the control.
func TestCheck(t *testing.T) {
	const media = "application/cloudevents+json; charset=utf-8"
	if err := Check(header(media, "a/1"), []byte(good)); err != nil {
		t.Fatal(err)
	}
	without := func(member string) [2]string { return [2]string{member + ",", ""} }
	for name, change := range map[string][2]string{
		"no specversion":     without(`"specversion":"1.0"`),
		"no id":              without(`"id":"a/1"`),
		"no source":          without(`"source":"stagepost://b/ingest"`),
		"no type":            without(`"type":"io.github.stagepost.ingest.ping"`),
		"no time":            without(`"time":"2026-11-23T16:00:00.5Z"`),
		"no data":            {`,"data":{"n":1}`, ""},
		"no datacontenttype": without(`"datacontenttype":"application/json"`),
		"another version":    {`"1.0"`, `"0.3"`},
		"empty id":           {`"a/1"`, `""`},
		"another id":         {`"a/1"`, `"a/2"`},
		"a number":           {`"a/1"`, `1`},
		"relative source":    {"stagepost://b", ""},
		"no URI":             {"stagepost://b", "stagepost://b c"},
		"short type":         {"io.github.stagepost.ingest.", ""},
		"empty subject":      {"job_1", ""},
		"control character":  {"job_1", `a\u0007b`},
		"noncharacter":       {"job_1", `a\uffffb`},
		"no RFC 3339":        {"2026-11-23T16:00:00.5Z", "2026-11-23 16:00"},
		"another form":       {"application/json", "text/plain"},
		"upper case":         {`"subject"`, `"Subject"`},
		"underscore":         {`"subject"`, `"sub_ject"`},
		"unknown":            {`"subject"`, `"timestamp"`},
		"twice":              {`"subject"`, `"id"`},
		"an array":           {"{", "[{"},
		"two values":         {`{"n":1}}`, `{"n":1}}{}`},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if err := Check(header(media, "a/1"), []byte(text)); err == nil || text == good {
			t.Errorf("%s: accepted %s", name, text)
		}
	}
	if err := Check(header("application/json", "a/1"), []byte(good)); err == nil {
		t.Error("accepted application/json")
	}
}
