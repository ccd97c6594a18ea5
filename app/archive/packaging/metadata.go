package packaging

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagepost/stagepost/app/archive/source"
)

// layoutVersion changes when other files or names are written for the same input.
const layoutVersion = "stagepost-archive/1"

// clean returns facts without secrets, with times in UTC and lists in a fixed order.
func (f Facts) clean() (Facts, error) {
	plain, err := newRedactor(f.Secrets).value(f)
	if err != nil {
		return Facts{}, err
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return Facts{}, err
	}
	var c Facts
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&c); err != nil {
		return Facts{}, err
	}
	for _, t := range []*time.Time{&c.Job.Requested, &c.Job.Started, &c.Job.Packaged, &c.Job.RetainUntil,
		&c.Course.Start, &c.Course.End} {
		*t = t.UTC()
	}
	for i := range c.Activities {
		c.Activities[i].Modified = c.Activities[i].Modified.UTC()
	}
	for i := range c.Events {
		c.Events[i].Time = c.Events[i].Time.UTC()
	}
	slices.SortFunc(c.Activities, func(a, b Activity) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.People, func(a, b source.Person) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(c.Locations, func(a, b Location) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(c.Events, func(a, b Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Activity, b.Activity), cmp.Compare(a.Type, b.Type))
	})
	return c, nil
}

// content is what the metadata of one package are made of.
type content struct {
	name    string
	facts   Facts // clean
	entries []entry
	redact  redactor
}

// total is the number and size of the gathered files.
func (c *content) total() (files, size int64) {
	for _, e := range c.entries {
		if e.file != nil {
			files, size = files+1, size+e.size
		}
	}
	return files, size
}

// writers give the generated files of the content but the PREMIS documents, which describe these as well.
func (c *content) writers() map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		jobFile:      c.writeJob,
		courseFile:   func(w io.Writer) error { return writeJSON(w, c.facts.Course) },
		activityFile: c.writeActivities,
		peopleFile:   c.writePeople,
		filesFile:    c.writeFiles,
	}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (c *content) writeJob(w io.Writer) error {
	files, size := c.total()
	return writeJSON(w, struct {
		Layout    string       `json:"layout"`
		Package   string       `json:"package"`
		Job       Job          `json:"job"`
		Source    source.Facts `json:"source"`
		Locations []Location   `json:"locations,omitempty"`
		Software  Software     `json:"software"`
		Files     int64        `json:"files"`
		Bytes     int64        `json:"bytes"`
		Excluded  []Excluded   `json:"excluded,omitempty"`
		Warnings  []string     `json:"warnings,omitempty"`
	}{
		layoutVersion, c.name, c.facts.Job, c.facts.Source, c.facts.Locations, c.facts.Software, files, size,
		c.facts.Excluded, c.facts.Warnings,
	})
}

// writeActivities writes a list, also for one activity.
func (c *content) writeActivities(w io.Writer) error {
	type described struct {
		Activity
		Folder string `json:"folder,omitempty"`
		Files  int    `json:"files"`
		Bytes  int64  `json:"bytes"`
	}
	folders, all := folders(c.facts.Activities), []described{}
	for _, a := range c.facts.Activities {
		d := described{Activity: a, Folder: folders[a.ID]}
		for _, e := range c.entries {
			if e.file != nil && e.file.Activity == a.ID {
				d.Files, d.Bytes = d.Files+1, d.Bytes+e.size
			}
		}
		all = append(all, d)
	}
	return writeJSON(w, all)
}

func (c *content) writePeople(w io.Writer) error {
	rows := [][]string{{"id", "username", "number", "first", "last", "name", "email", "roles", "groups"}}
	for _, p := range c.facts.People {
		rows = append(rows, []string{p.ID, p.Username, p.Number, p.First, p.Last, p.Name, p.Email,
			strings.Join(p.Roles, "; "), strings.Join(p.Groups, "; ")})
	}
	return writeCSV(w, rows)
}

// writeFiles lists the gathered files with what is recorded of their origin.
func (c *content) writeFiles(w io.Writer) error {
	rows := [][]string{{"path", "original_name", "role", "activity", "person", "size", "sha256", "type", "modified",
		"sha1_of_source", "url"}}
	for _, e := range c.entries {
		if e.file == nil {
			continue
		}
		o, modified := e.file.Origin, ""
		if !o.Modified.IsZero() {
			modified = o.Modified.UTC().Format(time.RFC3339)
		}
		rows = append(rows, []string{e.name, originalName(&e), string(e.file.Role), e.file.Activity, o.Person,
			strconv.FormatInt(e.size, 10), e.sha256, o.Type, modified, o.SHA1, c.redact.text(o.URL)})
	}
	return writeCSV(w, rows)
}

// originalName is the name of a file in the source, with %XX for each percent sign, each CR and LF (as in manifests of
// BagIt) and each byte that is not UTF-8. So percent-decoding gives the bytes of every name.
func originalName(e *entry) string {
	name := cmp.Or(e.file.Original, e.file.Name, e.file.Path)
	if len(e.file.Origin.Raw) > 0 {
		name = string(e.file.Origin.Raw)
	}
	var out strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 || r == '%' || r == '\r' || r == '\n' {
			fmt.Fprintf(&out, "%%%02X", name[0])
		} else {
			out.WriteString(name[:n])
		}
		name = name[n:]
	}
	return out.String()
}

// writeCSV writes rows in UTF-8, as RFC 4180 has them, with LF.
func writeCSV(w io.Writer, rows [][]string) error {
	out := csv.NewWriter(w)
	for _, row := range rows {
		for i, field := range row {
			row[i] = strings.ToValidUTF8(field, "\ufffd")
		}
	}
	if err := out.WriteAll(rows); err != nil {
		return fmt.Errorf("csv: %w", err)
	}
	return nil
}
