package webhook

import (
	"encoding/json"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
)

// TestEvent: an event is valid by the specification, and the same bytes each time. Malformed parts are refused before
// anything is sent.
func TestEvent(t *testing.T) {
	o := Origin{Installation: "q7h2", Application: "ingest"}
	at := time.Date(2026, 11, 23, 17, 0, 0, 5e8, time.FixedZone("", 3600))
	body, err := o.Event("bat_1/5/x", "batch.completed", "bat_1", at, map[string]int{"n": 1})
	want := `{"specversion":"1.0","id":"bat_1/5/x","source":"stagepost://q7h2/ingest",` +
		`"type":"io.github.stagepost.ingest.batch.completed","subject":"bat_1","time":"2026-11-23T16:00:00.5Z",` +
		`"datacontenttype":"application/json","data":{"n":1}}`
	if err != nil || string(body) != want {
		t.Errorf("got %s, %v", body, err)
	}
	for name, c := range map[string]struct {
		from        Origin
		id, subject string
		data        any
		good        bool
	}{
		"all":             {o, "ä/1 2", "a b", nil, true},
		"no installation": {Origin{Application: "custom"}, "1", "", json.RawMessage(`{"a": 1}`), true},
		"no id":           {o, "", "", nil, false},
		"blank id":        {o, " 1", "", nil, false},
		"control":         {o, "a\nb", "", nil, false},
		"control after":   {o, "1", "a\u0085b", nil, false},
		"no character":    {o, "1", "a\ufdd0b", nil, false},
		"no UTF-8":        {o, "\xff", "", nil, false},
		"no JSON":         {o, "1", "", math.NaN(), false},
	} {
		body, err := c.from.Event(c.id, "ping", c.subject, at, c.data)
		if (err == nil) != c.good {
			t.Errorf("%s: %s, %v", name, body, err)
		}
		h := http.Header{"Content-Type": {MediaType}}
		SetHeader(h, c.id, at, body)
		if err == nil {
			err = webhooktest.Check(h, body)
		}
		if (err == nil) != c.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
