package report

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// csvColumns name the columns of completed.csv and failed.csv.
var csvColumns = []string{
	"job", "row", "name", "filename", "url", "ark", "local_ids", "version", "files", "bytes", "state", "failed_in",
	"cause", "reason", "message", "next", "warnings",
}

func record(j *Job) []string {
	number := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	cells := []string{
		string(j.Job), number(int64(j.Row)), NameOf(j), j.Filename, j.URL, j.ARK, strings.Join(j.LocalIDs,
			"; "), number(int64(j.Version)),
		number(int64(j.Files)), number(j.Bytes), string(j.State), string(j.FailedIn), j.Cause, j.Reason, j.Message,
		j.Next, strings.Join(j.Warnings, "; "),
	}
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	return cells
}

// cell makes a stranger's text harmless for a spreadsheet: what it would take for a formula gets an apostrophe in
// front, which it shows as text (OWASP, CSV injection), and other control characters than line ends become spaces. A
// line end is left to the quotes of RFC 4180.
func cell(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	if text == "" {
		return text
	}
	begins := strings.TrimLeft(text, " \u00a0\ufeff\u200b\u2060\"'")
	if strings.ContainsRune("\t\r\n", rune(text[0])) || begins != "" &&
		strings.ContainsAny(begins[:1], "=+-@\t\r\n|") ||
		strings.HasPrefix(begins, "＝") || strings.HasPrefix(begins, "＋") || strings.HasPrefix(begins, "－") ||
		strings.HasPrefix(begins, "＠") {
		return "'" + text
	}
	return text
}

// CSV gives the jobs that completed, or those that failed, as RFC 4180 has it: UTF-8, CRLF, a line with the names of
// the columns.
func (r *Batch) CSV(completed bool) []byte {
	text, _ := r.csv(completed, math.MaxInt, "")
	return text
}

// csv stops before it has more than most bytes. Then it ends with a line whose first cell states it and where the whole
// list is; left is the number of jobs that are not in it.
func (r *Batch) csv(completed bool, most int, where string) (text []byte, left int) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = true
	_ = w.Write(csvColumns) // a buffer never fails
	w.Flush()
	jobs := r.with(completed)
	for i := range jobs {
		end := b.Len()
		_ = w.Write(record(&jobs[i]))
		w.Flush()
		if b.Len() > most {
			b.Truncate(end)
			left = len(jobs) - i
			last := make([]string, len(csvColumns))
			last[0] = cutSentence(i, len(jobs), where)
			_ = w.Write(last)
			w.Flush()
			break
		}
	}
	return b.Bytes(), left
}

// cutSentence states that a list was cut.
func cutSentence(here, all int, where string) string {
	return fmt.Sprintf("This list is cut: it has the first %d of %d objects, since a mail must not grow larger. %s",
		here, all, where)
}
