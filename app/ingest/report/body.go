package report

import (
	"encoding/json"
)

// Bounds of a mail about a report. Four attachments of the largest size are, as they are sent, about half of what most
// servers take.
const (
	mostShown     = 200     // objects of one list in the body
	maxAttachment = 2 << 20 // bytes
)

// Body is the content of a mail, in both forms, and its attachments.
type Body struct {
	Text        string
	HTML        string
	Attachments []Attachment
}

// Attachment is a file that a mail carries.
type Attachment struct {
	Name        string
	ContentType string
	Data        []byte
}

// Body makes the mail about the report. Its attachments are failed.json and completed.json, as Merritt has them, and
// both as CSV. What is too large is cut, and the bodies state it. link is the address of the batch's page, or empty;
// where returns the address of a whole list, by its format: csv-failed or csv-completed.
func (r *Batch) Body(link string, where func(format string) string) (Body, error) {
	attached, notes, err := r.attachments(where)
	if err != nil {
		return Body{}, err
	}
	body := Body{Text: r.text(mostShown), Attachments: attached}
	for _, note := range notes {
		body.Text += "\n" + note + "\n"
	}
	p := r.page(mostShown, link)
	p.Notes = append(p.Notes, notes...)
	body.HTML, err = p.render()
	return body, err
}

// attachments makes the four lists, and a sentence for each that was cut.
func (r *Batch) attachments(where func(format string) string) (all []Attachment, notes []string, err error) {
	for _, list := range []struct {
		completed bool
		name      string
	}{{false, "failed"}, {true, "completed"}} {
		n := len(r.with(list.completed))
		whole := where("csv-" + list.name)
		text, left, err := r.listJSON(list.completed, maxAttachment, whole)
		if err != nil {
			return nil, nil, err
		}
		table, leftOfTable := r.csv(list.completed, maxAttachment, whole)
		for _, one := range []struct {
			Attachment
			left int
		}{
			{Attachment{list.name + ".json", "application/json", text}, left},
			{Attachment{list.name + ".csv", "text/csv; charset=utf-8", table}, leftOfTable},
		} {
			all = append(all, one.Attachment)
			if one.left > 0 {
				notes = append(notes, "The attachment "+one.Name+" is cut. "+cutSentence(n-one.left, n, whole))
			}
		}
	}
	return all, notes, nil
}

// listJSON gives the jobs that completed, or those that failed, in Merritt's form. It holds no more jobs than fit into
// most bytes; then a member "cut" states it, and left is the number of those that are missing.
func (r *Batch) listJSON(completed bool, most int, where string) (text []byte, left int, err error) {
	key := "failedJobs"
	if completed {
		key = "completedJobs"
	}
	jobs := r.with(completed)
	text = []byte("{\n  \"" + key + "\": [")
	for i := range jobs {
		var of any = &jobs[i]
		if r.Merritt {
			of = r.merritt(&jobs[i])
		}
		one, err := json.MarshalIndent(of, "    ", "  ")
		if err != nil {
			return nil, 0, err
		}
		if len(text)+len(one) > most {
			left = len(jobs) - i
			break
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, "\n    "...), one...)
	}
	if len(jobs) > left {
		text = append(text, "\n  "...)
	}
	text = append(text, ']')
	if left > 0 {
		says, err := json.Marshal(cutSentence(len(jobs)-left, len(jobs), where))
		if err != nil {
			return nil, 0, err
		}
		text = append(append(text, ",\n  \"cut\": "...), says...)
	}
	return append(text, "\n}\n"...), left, nil
}
