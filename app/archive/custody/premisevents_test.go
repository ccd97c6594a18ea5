package custody

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
	"github.com/stagepost/stagepost/app/archive/copies"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestPreservationHasEachEvent: the metadata have each event of the life of an artifact in two locations, in order of
// time, also of the copy that was replaced and after the deletion.
func TestPreservationHasEachEvent(t *testing.T) {
	ctx := t.Context()
	day := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(days int) time.Time { return day.AddDate(0, 0, days) }
	c, err := catalog.Open(ctx, filepath.Join(t.TempDir(), catalog.Name), catalog.Options{})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	store, err := copies.New(copies.Options{Catalog: c})
	must(t, err)
	u, err := New(Options{Catalog: c, Copies: store})
	must(t, err)
	const id = "arc_1"
	must(t, c.Begin(ctx, catalog.Archive{Job: id, Source: "campus", Created: day}))
	must(t, c.PutArtifacts(ctx, id, []catalog.Artifact{{Path: "exam.zip", Size: 10, SHA256: strings.Repeat("ab", 32),
		SHA512: strings.Repeat("cd", 64), Role: catalog.Payload, Created: day}}))
	must(t, c.Plan(ctx, id, []string{"near", "far"}, time.Time{}, at(0)))
	all, err := c.Copies(ctx, id, "")
	must(t, err)
	far, near := all[0].CopyKey, all[1].CopyKey
	must(t, c.PutAttempts(ctx, []catalog.Attempt{{CopyKey: far, Err: errors.New("it is down"), At: at(0)}}))
	must(t, c.PutAttempts(ctx, []catalog.Attempt{{CopyKey: near, At: at(1), Next: at(30)}}))
	failing, err := u.Preservation(ctx, id)
	must(t, err)
	if e := failing.Events[0]; e.Outcome != "failure" || !strings.Contains(e.Detail, "it is down") {
		t.Errorf("the location that is down: %+v", e)
	}
	must(t, c.PutAttempts(ctx, []catalog.Attempt{{CopyKey: far, At: at(2), Next: at(30)}}))
	_, err = c.PutToken(ctx, catalog.Token{Subject: id + "/exam.zip", Generation: 1, Job: id, Path: "exam.zip",
		Query: []byte{1}, Reply: []byte{2}, Time: at(3), Expires: at(1000)}, catalog.Event{Key: "stamp", Job: id,
		Path: "exam.zip", Type: "digital signature generation", Outcome: "success", Agent: "stagepost", At: at(3)})
	must(t, err)
	must(t, c.PutChecked(ctx, []catalog.Checked{{CopyKey: far, Fixity: catalog.Intact, At: at(30), Next: at(60)}}))
	must(t, c.PutChecked(ctx, []catalog.Checked{{CopyKey: near, Fixity: catalog.Corrupt, Detail: "another digest",
		At: at(31), Next: at(32)}}, catalog.Event{Key: "bad", Job: id, Path: "exam.zip", Type: "fixity check",
		Outcome: "failure", Detail: "copy in near: another digest", At: at(31)}))
	fresh, err := c.PlanReplacement(ctx, near, at(32))
	must(t, err)
	must(t, c.PutAttempts(ctx, []catalog.Attempt{{CopyKey: fresh.CopyKey, At: at(33), Next: at(60)}}))
	must(t, c.Replace(ctx, near, fresh.Generation, catalog.Event{Key: "healed", Job: id, Path: "exam.zip",
		Type: "replication", Outcome: "success", Detail: "replaced", At: at(34)}))
	must(t, c.PutDeleted(ctx, near, "ann", "it was damaged", at(35)))
	d, err := u.Preservation(ctx, id)
	must(t, err)
	var got []string
	for _, e := range d.Events {
		got = append(got, fmt.Sprintf("%d %s %s", int(e.Time.Sub(day).Hours()/24), e.Type, e.Outcome))
		if len(e.Objects) != 1 || e.Objects[0].ID.Value != "exam.zip" {
			t.Errorf("the event %s is of %v", e.Type, e.Objects)
		}
	}
	want := []string{
		"1 replication success", "2 replication success", "3 digital signature generation success",
		"30 fixity check success", "31 fixity check failure", "33 replication success", "34 replication success",
		"35 deletion success",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	var text strings.Builder
	must(t, d.WriteXML(&text))
	checkShape(t, text.String())
}

// checkShape checks what the PREMIS 3.0 schema requires of the order and the number of elements in objects, events and
// agents: the schema itself is not part of this repository.
func checkShape(t *testing.T, text string) {
	t.Helper()
	order := map[string][]string{
		"premis": {"object", "event", "agent", "rights"},
		"event": {"eventIdentifier", "eventType", "eventDateTime", "eventDetailInformation", "eventOutcomeInformation",
			"linkingAgentIdentifier", "linkingObjectIdentifier"},
		"agent": {"agentIdentifier", "agentName", "agentType", "agentVersion", "agentNote"},
	}
	required := map[string][]string{
		"event":           {"eventIdentifier", "eventType", "eventDateTime"},
		"eventIdentifier": {"eventIdentifierType", "eventIdentifierValue"},
		"agent":           {"agentIdentifier"},
		"object":          {"objectIdentifier", "objectCharacteristics"},
	}
	type element struct {
		name     string
		children []string
		other    bool // an object that is not a file
	}
	var stack []*element
	events := 0
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			if n := len(stack); n > 0 {
				stack[n-1].children = append(stack[n-1].children, x.Name.Local)
			}
			e := &element{name: x.Name.Local}
			for _, a := range x.Attr {
				e.other = e.other || a.Name.Local == "type" && !strings.HasSuffix(a.Value, "file")
			}
			stack = append(stack, e)
		case xml.EndElement:
			e := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if e.name == "event" {
				events++
			}
			last := 0
			for _, child := range e.children {
				if at := slices.Index(order[e.name], child); at >= 0 && at < last {
					t.Errorf("%s is not in its position in %s", child, e.name)
				} else if at > last {
					last = at
				}
			}
			for _, name := range required[e.name] {
				if !e.other && !slices.Contains(e.children, name) {
					t.Errorf("%s has no %s", e.name, name)
				}
			}
		}
	}
	if events != 8 {
		t.Errorf("%d events in XML", events)
	}
}
