package wire

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/app/compute/orchestrator/scan"
)

func TestStatus(t *testing.T) {
	stored := []string{"queued", "processing", "submitted", "prepared", "running", "cleaned", "completed", "failed",
		"invalid", "unknown", "locked", "killed"}
	for i, s := range Statuses() {
		if s.Stored() != stored[i] || !s.Known() || ParseStored(stored[i]) != s ||
			ParseStored(strings.ToUpper(stored[i])) != s || ParseStored(string(s)) != s {
			t.Errorf("%s is not %s", s, stored[i])
		}
	}
	for _, word := range []string{"", "  ", "pending ", "queued ", " queued", "notastatus", "cancelled"} {
		if s := ParseStored(word); s != Unknown {
			t.Errorf("%q is %s", word, s)
		}
	}
	if Status("queued").Known() || Status("").Known() {
		t.Error("JSON has the words in one form only")
	}
}

func TestPayloadDecode(t *testing.T) {
	good := `{"id":7,"input":{"run.sh":[1,2,255],"a\"]}":[]},"status":"Running","loc":"/d/7","pid":3,"killed":true}`
	p, err := decodePayload(strings.NewReader(good), 1000)
	if diff := cmp.Diff(Payload{ID: 7, Status: Running, Loc: "/d/7", PID: 3, Killed: true}, p); err != nil ||
		diff != "" {
		t.Error(err, diff)
	}
	code := 4
	extra := ` { "unknown" : [{"a":"}"}, null, -1.5e3, "\\"] , "exit_code":4,"killed":false,"pid":0,"loc":"","status":"Failed","input":{},"id":0,"instance":"i","reason":5 } ` + "\n"
	p, err = decodePayload(strings.NewReader(extra), 1000)
	if diff := cmp.Diff(Payload{Status: Failed, ExitCode: &code, Instance: "i"}, p); err != nil || diff != "" {
		t.Error(err, diff)
	}
	for _, field := range []string{`"id":7`, `"input":{"run.sh":[1,2,255],"a\"]}":[]}`, `"status":"Running"`, `"loc":"/d/7"`, `"pid":3`, `"killed":true`} {
		without := strings.NewReplacer(field+",", "", ","+field, "").Replace(good)
		if _, err := decodePayload(strings.NewReader(without), 1000); err == nil {
			t.Errorf("%s is not missed in %s", field, without)
		}
		twice := strings.Replace(good, field, field+","+field, 1)
		if _, err := decodePayload(strings.NewReader(twice), 1000); err == nil {
			t.Errorf("%s may stand twice", field)
		}
	}
	for i := range good {
		if _, err := decodePayload(strings.NewReader(good[:i]), 1000); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %v", good[:i], err)
		}
	}
	for _, bad := range []string{`null`, `[]`, `not valid json`, `<html>`, `{}`, good + "x", good + good,
		strings.Replace(good, "Running", "Sleeping", 1),
		strings.Replace(good, "Running", "running", 1), strings.Replace(good, `"id":7`, `"id":-7`, 1),
		strings.Replace(good, `"id":7`, `"id":4294967296`, 1),
		strings.Replace(good, `"id":7`, `"id":null`, 1), strings.Replace(good, `"pid":3`, `"pid":"3"`, 1),
		strings.Replace(good, `{"run`, `["run`, 1),
		strings.Replace(good, `"killed":true`, `"killed":1`, 1), strings.Replace(good, ",", "", 1),
		strings.Replace(good, ":", "", 1), `{,}`, `{"id":}`} {
		if p, err := decodePayload(strings.NewReader(bad), 1000); err == nil {
			t.Errorf("%s is taken as %v", bad, p)
		}
	}
	if _, err := decodePayload(strings.NewReader(good), int64(len(good))-1); !errors.Is(err, scan.ErrTooLong) {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := decodePayload(strings.NewReader(good), int64(len(good))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := decodePayload(strings.NewReader(strings.Replace(good, "/d/7", strings.Repeat("x", scan.MaxField), 1)),
		1<<20); err == nil {
		t.Error("a value is as long as it likes")
	}
}

// The echo of 40 MB is passed over without being held.
func TestPayloadDecodeHoldsNoEcho(t *testing.T) {
	numbers := strings.Repeat("255,", 1<<18)
	readers := []io.Reader{strings.NewReader(`{"id":7,"input":{"big":[`)}
	for range 40 {
		readers = append(readers, strings.NewReader(numbers))
	}
	readers = append(readers, strings.NewReader(`0]},"status":"Prepared","loc":"/d","pid":0,"killed":false}`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p, err := decodePayload(io.MultiReader(readers...), 50<<20)
	runtime.ReadMemStats(&after)
	if err != nil || p.ID != 7 {
		t.Fatal(p, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("%d bytes were allocated for an echo of 40 MiB", used)
	}
}

func TestPayloadEncode(t *testing.T) {
	if got := string(Payload{ID: 1, Status: "Odd", Loc: "<&>\u2028"}.Encode(true)); got != `{"id":1,"input":{},"status":"Unknown","loc":"<&>\u2028","pid":0,"killed":false}` {
		t.Error(got)
	}
}

func FuzzPayload(f *testing.F) {
	f.Add(`{"id":7,"input":{"a":[1]},"status":"Running","loc":"/d","pid":3,"killed":true}`)
	f.Add(`{"id":0,"input":{},"status":"Unknown","loc":"","pid":0,"killed":false,"x":[[{"a":"\\\""}]]}`)
	f.Add(`{"id":1e1,"input":{"\u0000":{}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		p, err := decodePayload(strings.NewReader(text), 1<<20)
		if err != nil {
			return
		}
		again, err := decodePayload(strings.NewReader(string(p.Encode(true))), 1<<20)
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Errorf("%s: %v %s", text, err, diff)
		}
	})
}

func FuzzID(f *testing.F) {
	for _, s := range []string{"1", "+1", "007", "-1", "4294967296", "%31", "%", "%ff", "", "1%00", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, segment string) {
		id, wrong := parseID(segment)
		if wrong != "" {
			return
		}
		if again, wrong := parseID(fmt.Sprint(id)); again != id || wrong != "" {
			t.Errorf("%q is %d, which is %d (%s)", segment, id, again, wrong)
		}
	})
}
