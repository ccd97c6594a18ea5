package flowhttp

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/draw"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// drawFlow draws a flow with the states of its tasks, as a graph or along the time.
func (s *Handlers) drawFlow(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	p.Number("version", 0, 1<<62)
	if err := p.Err(); err != nil {
		return err
	}
	f, err := s.oneFlow(r)
	if err != nil {
		return err
	}
	full := r.PathValue("name")
	name, format, _ := strings.Cut(full, ".")
	if full == "graph" || full == "timeline" {
		format = acceptedDrawing(r.Header.Get("Accept"), name)
		w.Header().Set("Vary", "Accept")
	}
	switch {
	case flowDrawings[name+"."+format] == nil:
		return job.Errorf(job.NotFound, "draw", f.Job.ID,
			"there is no drawing %.60q (there are: graph.svg, graph.dot, graph.mmd, timeline.svg)", full)
	case f.Outline == nil:
		return job.Errorf(job.Refused, "draw", f.Job.ID,
			"no worker has made the flow yet: it can be drawn when it has begun")
	}
	text, err := drawnAs(name+"."+format, f, recordsOf(f), time.Now())
	if err != nil {
		return err
	}
	if format == "svg" {
		return server.ReplySVG(w, text)
	}
	return server.ReplyText(w, text)
}

// recordsOf lists the records of the atoms that a flow has.
func recordsOf(f *durable.View) []flow.Record {
	records := make([]flow.Record, 0, len(f.Atoms))
	for i := range f.Atoms {
		if !f.Atoms[i].Removed {
			records = append(records, f.Atoms[i].Record)
		}
	}
	return records
}

// drawnAs draws a flow, whose outline is known, as one of flowDrawings.
func drawnAs(name string, f *durable.View, records []flow.Record, now time.Time) (string, error) {
	var b bytes.Buffer
	if err := flowDrawings[name](&b, f, records, now); err != nil {
		return "", job.Errorf(job.Internal, "draw", f.Job.ID, "%w", err)
	}
	return b.String(), nil
}

// flowDrawings are the drawings that there are of a flow, by name.
var flowDrawings = map[string]func(w io.Writer, f *durable.View, records []flow.Record, now time.Time) error{
	"graph.svg": func(w io.Writer, f *durable.View, records []flow.Record, now time.Time) error {
		return draw.SVG(w, f.Outline, records, draw.Options{State: f.Job.State, Now: now})
	},
	"graph.dot": func(w io.Writer, f *durable.View, records []flow.Record, now time.Time) error {
		return draw.DOT(w, f.Outline, records, draw.Options{State: f.Job.State, Now: now})
	},
	"graph.mmd": func(w io.Writer, f *durable.View, records []flow.Record, now time.Time) error {
		return draw.Mermaid(w, f.Outline, records, draw.Options{State: f.Job.State, Now: now})
	},
	"timeline.svg": func(w io.Writer, _ *durable.View, records []flow.Record, now time.Time) error {
		return draw.Timeline(w, draw.SpansOf(records, now), draw.TimelineOptions{})
	},
}

// acceptedDrawing gives the format that a request asks for by media type; SVG unless it asks for another.
func acceptedDrawing(accept, name string) string {
	if name == "timeline" {
		return "svg"
	}
	for part := range strings.SplitSeq(accept, ",") {
		media, _, _ := strings.Cut(part, ";")
		switch strings.ToLower(strings.TrimSpace(media)) {
		case "image/svg+xml", "image/*", "*/*":
			return "svg"
		case "text/vnd.graphviz":
			return "dot"
		case "text/vnd.mermaid", "text/plain":
			return "mmd"
		}
	}
	return "svg"
}
