package job_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/job"
)

// later returns the JSON of a value, to which a newer version added a field.
func later(t *testing.T, of any) []byte {
	t.Helper()
	return []byte(strings.Replace(string(mustJSON(t, of)), "{", `{"moon":{"phase":"full"},`, 1))
}

// TestNewerEntries: entries with a field that this version does not have, and a hash that covers it, are reported as
// written by a newer version. Controls: the same entries without the field were changed, and sound ones are read so.
func TestNewerEntries(t *testing.T) {
	j, history := sealed()
	log := entries()
	history[1].Hash[0]++ // covers more than this version computes
	j.Head = history[1].Hash
	log[1].Hash[0]++
	for _, c := range []struct {
		newer bool
		want  string
	}{{true, "(begin) was written by a newer version"}, {false, "(begin) does not match its hash: it was changed"}} {
		text := later(t, history[1])
		if !c.newer {
			text = mustJSON(t, history[1])
		}
		got := []job.Event{history[0], {}}
		if err := json.Unmarshal(text, &got[1]); err != nil {
			t.Fatal(err)
		}
		if err := job.Verify(j, got, life); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
		again := mustJSON(t, got[1]) // as a server of this version passes it on
		if err := json.Unmarshal(again, &got[1]); err != nil || got[1].Newer != c.newer {
			t.Errorf("passed on: newer %t, want %t, %v", got[1].Newer, c.newer, err)
		}
	}
	for want, text := range map[string][]byte{
		"was written by a newer version":          later(t, log[1]),
		"does not match its hash: it was changed": mustJSON(t, log[1]),
	} {
		got := []job.Audit{log[0], {}, log[2]}
		if err := json.Unmarshal(text, &got[1]); err != nil {
			t.Fatal(err)
		}
		if err := job.VerifyAudit(nil, got); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, text := range []string{"[1]", `{"seq":"x"}`, `{"moon":1,"seq":"x"}`} {
		if json.Unmarshal([]byte(text), new(job.Event)) == nil || json.Unmarshal([]byte(text), new(job.Audit)) == nil {
			t.Errorf("%s was read", text)
		}
	}
}

func mustJSON(t *testing.T, of any) []byte {
	t.Helper()
	text, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
