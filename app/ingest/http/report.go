package ingesthttp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// report gives the report about a batch in the form that the parameter format names, else in the one that Accept asks
// for.
func (s *Handlers) report(w http.ResponseWriter, r *http.Request) error {
	return s.reportOn(w, r, server.JobID(r))
}

// reportOn gives the report about a batch that the sender may read.
func (s *Handlers) reportOn(w http.ResponseWriter, r *http.Request, batch job.ID) error {
	app, err := s.ingest()
	if err != nil {
		return err
	}
	p := server.Params(r)
	format := p.Choice("format", api.ReportFormats()...)
	if err := p.Err(); err != nil {
		return err
	}
	done, err := s.mayMake(r)
	if err != nil {
		return err
	}
	report, err := app.Report(r.Context(), batch)
	done()
	if err != nil {
		return err
	}
	w.Header().Set("Vary", "Accept")
	if format == "" {
		format = accepted(r.Header.Get("Accept"))
	}
	return s.replyReport(w, &report, batch, format)
}

// mostReports are made at once, for pages and by themselves; others wait. One of 10,000 objects takes about 50 MB while
// it is made.
const mostReports = 4

// reportSlots bounds the reports that are made at the same time.
type reportSlots chan struct{}

// mayMake waits until a report may be made; done is to be called when it has been.
func (s *Handlers) mayMake(r *http.Request) (done func(), err error) {
	select {
	case s.making <- struct{}{}:
		return func() { <-s.making }, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// accepted gives the form that a request asks for by its header; JSON goes before all others.
func accepted(accept string) string {
	if strings.Contains(accept, "application/json") {
		return "json"
	}
	for _, one := range []struct{ media, format string }{{"text/plain", "text"}, {"text/html", "html"}} {
		if strings.Contains(accept, one.media) {
			return one.format
		}
	}
	return "json"
}

func (s *Handlers) replyReport(w http.ResponseWriter, report *Report, batch job.ID, format string) error {
	kind, ok := strings.CutPrefix(format, "csv-")
	begin := func(size int) { // 16 KiB in a second are enough
		slowest := time.Duration(size>>14) * time.Second
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30*time.Second + slowest))
	}
	switch {
	case format == "json":
		text, err := json.Marshal(&report.Batch)
		if err != nil {
			return err
		}
		begin(len(text))
		return server.Reply(w, json.RawMessage(text))
	case format == "text":
		text := report.Text()
		begin(len(text))
		return server.ReplyText(w, text)
	case format == "html" && report.HTML != nil:
		text, err := report.HTML()
		if err != nil {
			return err
		}
		begin(len(text))
		w.Header().Set("Content-Security-Policy", server.MailPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(text))
		return nil
	case ok && report.CSV != nil:
		text := report.CSV(kind == "completed")
		begin(len(text))
		w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
		w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(batch)+"-"+kind+".csv"))
		_, _ = w.Write(text)
		return nil
	}
	return job.Errorf(job.Unavailable, "report", batch, "this server has no report as %s", format)
}

// fileName is the name of a batch as part of a file's.
func fileName(batch job.ID) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, string(batch))
}
