package draw_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/internal/goldentest"
	"github.com/stagepost/stagepost/lifecycle"
)

var update = flag.Bool("update", false, "write testdata instead of comparing it")

var (
	began = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	now   = began.Add(95 * time.Second)
)

func at(seconds float64) time.Time {
	return began.Add(time.Duration(seconds * float64(time.Second)))
}

func task(name string, needs ...string) *flow.Task {
	return &flow.Task{Name: name, Args: flow.Args{Requires: needs}, Result: flow.One(name)}
}

// sample is a flow with every pattern, a retry controller, deciders and a fan.
func sample(t testing.TB) *flow.Outline {
	t.Helper()
	yes := func(flow.Values) (bool, error) { return true, nil }
	probe, convert, thumbs, index := task("probe"), task("convert", "probe"), task("thumbnails", "probe"),
		task("index", "convert", "thumbnails")
	ocr := flow.Linear("ocr", task("recognise"), task("proof-read"))
	g := flow.Graph("derive").With(flow.Times(3))
	copies := flow.Unordered("copies")
	for i := range 40 {
		copies = flow.Unordered("copies", append(copies.Items(), task(fmt.Sprintf("copy-%02d", i)))...)
	}
	for _, err := range []error{
		g.Add(probe, convert, thumbs, index, ocr), g.LinkIf(probe, ocr, yes, flow.DepthFlow), g.Link(ocr, index),
		g.LinkIf(probe, index, yes, flow.DepthAtom),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	o, err := flow.OutlineOf(flow.Linear("ingest", task("fetch"),
		flow.Unordered("check", task("virus-scan"), task("checksums"), task("metadata")), g, copies,
		flow.Wait("approve", "approved", 0), task("publish")))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// records has an atom in every state.
func records() []flow.Record {
	rec := func(name string, s lifecycle.State, from, to float64) flow.Record {
		r := flow.Record{Name: name, Kind: flow.KindTask, State: s, Intention: flow.Execute, Attempts: 1,
			Began: at(from)}
		if to > 0 {
			r.Ended = at(to)
		}
		return r
	}
	all := []flow.Record{
		rec("fetch", flow.Success, 0, 2.5), rec("virus-scan", flow.Success, 2.5, 20),
		rec("checksums", flow.Reverted, 3, 9), rec("metadata", flow.RevertFailure, 3, 5),
		rec("probe", flow.Success, 20, 22), rec("convert", flow.Running, 22, 0),
		rec("thumbnails", flow.FailureState, 22, 31),
		rec("recognise", flow.Reverting, 40, 0), rec("approve", flow.Running, 60, 0),
		{Name: "derive_retry", Kind: flow.KindRetry, State: flow.Success, Began: at(20), Ended: at(20.1),
			History: make(flow.History, 2)},
		{Name: "proof-read", Kind: flow.KindTask, State: flow.Ignore},
		{Name: "index", Kind: flow.KindTask, State: flow.Pending},
		rec("moved-away", flow.Success, 1, 2),
	}
	all[3].RevertFailure = &flow.Failure{Type: "PermissionError", Message: "the catalogue <refuses> to delete \"x\"\nsecond line"}
	all[2].Failure = &flow.Failure{Type: "ChecksumError", Message: "the sum of <scan-0001.tif> is 9f86d081884c7d65 and not 60303ae22b998861, which the depositor's manifest has"}
	all[2].ExecuteBegan, all[2].ExecuteEnded, all[2].Began = at(3), at(7.5), at(8)
	all[3].ExecuteBegan, all[3].ExecuteEnded, all[3].Began = at(3), at(4), at(4.5)
	all[5].Progress, all[5].Attempts = 0.48, 2
	all[6].Failure = &flow.Failure{Type: "IOError", Message: "no space left on device"}
	all[7].Progress = 0.2
	all[8].Waits, all[8].Awaits, all[8].Due = true, "approved", at(400)
	for i := range 40 {
		s := []lifecycle.State{flow.Success, flow.Success, flow.Pending}[i%3]
		r := rec(fmt.Sprintf("copy-%02d", i), s, 40, 41)
		if i == 33 {
			r = rec(r.Name, flow.Running, 45, 46)
			r.Waits, r.Due, r.Tries, r.Attempts, r.Failure = true, at(100), 2, 3,
				&flow.Failure{Type: "Timeout", Message: "no answer"}
		}
		all = append(all, r)
	}
	return all
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	goldentest.Compare(t, filepath.Join("testdata", name), got, *update, "go test ./flow/draw -update")
}

type drawer func(io.Writer, *flow.Outline, []flow.Record, draw.Options) error

func drawn(t testing.TB, d drawer, o *flow.Outline, recs []flow.Record, opts draw.Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := d(&b, o, recs, opts); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares every kind of picture of one flow with what is kept.
func TestGolden(t *testing.T) {
	o, recs := sample(t), records()
	opts := draw.Options{State: flow.Running, Now: now, Most: 6}
	for name, d := range map[string]drawer{"graph.svg": draw.SVG, "graph.dot": draw.DOT, "graph.mmd": draw.Mermaid} {
		golden(t, name, []byte(drawn(t, d, o, recs, opts)))
		golden(t, "plain-"+name, []byte(drawn(t, d, o, nil, draw.Options{Most: 6})))
	}
	lines := func(all []string) []byte {
		var b bytes.Buffer
		for _, l := range all {
			fmt.Fprintln(&b, l)
		}
		return b.Bytes()
	}
	golden(t, "tree.txt", lines(draw.Tree(o, recs, draw.TreeOptions{State: flow.Running, Now: now, Width: 100,
		MaxLines: 30, Unicode: true})))
	golden(t, "tree-ascii.txt", lines(draw.Tree(o, recs,
		draw.TreeOptions{State: flow.Running, Now: now, Width: 60, MaxLines: 12})))
	golden(t, "tree-colour.txt", lines(draw.Tree(o, recs,
		draw.TreeOptions{State: flow.Running, Now: now, Color: true, Unicode: true})))
	spans := draw.SpansOf(recs, now)
	golden(t, "timeline.txt", lines(draw.TimelineText(spans,
		draw.TimelineOptions{Width: 90, Unicode: true, MaxRows: 14})))
	golden(t, "timeline-ascii.txt", lines(draw.TimelineText(spans, draw.TimelineOptions{Width: 60, MaxRows: 14})))
	var b bytes.Buffer
	if err := draw.Timeline(&b, spans, draw.TimelineOptions{MaxRows: 14}); err != nil {
		t.Fatal(err)
	}
	golden(t, "timeline.svg", b.Bytes())
}
