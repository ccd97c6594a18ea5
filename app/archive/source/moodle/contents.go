package moodle

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/app/archive/source"
)

// contents archives activities that consist of files: pages, files, folders, texts in chapters, links, labels.
type contents struct{}

func (contents) needs() []string { return nil }

// kept is the data of an item: a file, and the name under which it is kept.
type kept struct {
	content
	Kept string `json:"kept"`
}

// keepable chooses the files of a module. What is on another server is named by the warnings.
func (s *Source) keepable(m *module) (files []kept, warnings []string) {
	names, seen := source.Names{}, map[string]bool{}
	for _, c := range m.Contents {
		key := c.key()
		if c.Type == "url" || seen[key] { // a link is in the description
			continue
		}
		seen[key] = true
		if _, err := s.c.fileURL(c.URL); err != nil {
			warnings = append(warnings, fmt.Sprintf("the file %q is left out: %s", c.Name, err))
			continue
		}
		files = append(files, kept{c, names.For(key, "files/"+safePath(c.Path, c.Name))})
	}
	return files, warnings
}

func (c content) key() string { return "file:" + c.Path + c.Name }

func (contents) state(ctx context.Context, s *Source, a source.Activity) (any, error) {
	m, _, err := s.module(ctx, a)
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, len(m.Contents))
	for _, c := range m.Contents {
		list = append(list, []any{c.Type, c.Path, c.Name, c.Size, c.Modified, c.linked()})
	}
	return map[string]any{"name": m.Name, "description": m.Description, "contents": list}, nil
}

// linked gives the address of a link, which is its content; that of a file has a version of the Moodle in it.
func (c content) linked() string {
	if c.Type == "url" {
		return c.URL
	}
	return ""
}

func (contents) plan(
	ctx context.Context, s *Source, a source.Activity, _ source.Settings,
) (*source.Plan, error) {
	m, _, err := s.module(ctx, a)
	if err != nil {
		return nil, err
	}
	out := &source.Plan{Items: []source.Item{{Key: "activity", Title: "Description and the list of files"}}}
	files, warnings := s.keepable(m)
	out.Warnings = warnings
	for _, f := range files {
		data, err := json.Marshal(f)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, source.Item{Key: f.key(), Title: f.Name, Data: data})
	}
	return out, nil
}

func (contents) fetch(
	ctx context.Context, s *Source, a source.Activity, item source.Item, _ source.Settings, out source.Out,
) error {
	if item.Key != "activity" {
		var f kept
		if err := item.Decode(&f); err != nil {
			return err
		}
		return s.keep(ctx, out, f.Kept, f.content, "")
	}
	m, raw, err := s.module(ctx, a)
	if err != nil {
		return err
	}
	origin := source.Origin{URL: a.URL}
	if err := s.putAnswer(ctx, out, "core_course_get_contents", origin, raw); err != nil {
		return err
	}
	doc := document{Title: m.Name, Facts: [][2]string{{"Kind", m.Module}, {"Section", a.Section}}}
	if m.Description != "" {
		doc.Parts = append(doc.Parts, m.Description)
	}
	for _, c := range m.Contents {
		if c.Type == "url" {
			link := htmlEscape(c.URL)
			doc.Parts = append(doc.Parts, fmt.Sprintf(`<p><a href="%s">%s</a></p>`, link, link))
		}
	}
	files, _ := s.keepable(m)
	for _, f := range files {
		doc.Files = append(doc.Files, f.Kept)
	}
	if m.Module == "page" {
		if text, err := pageText(ctx, s, a); err != nil {
			return err
		} else if text != "" {
			doc.Parts = append(doc.Parts, text)
		}
	}
	return s.putPage(ctx, out, "activity.html", origin, doc)
}

// pageText gives the text of a page, where the Moodle permits to ask for it.
func pageText(ctx context.Context, s *Source, a source.Activity) (string, error) {
	const function = "mod_page_get_pages_by_courses"
	if lacks, err := s.lacks(ctx, function); err != nil || lacks != "" {
		return "", err
	}
	var answer struct {
		Pages []struct {
			Module  int    `json:"coursemodule"`
			Content string `json:"content"`
		} `json:"pages"`
	}
	if _, err := s.c.call(ctx, function, params{"courseids": []string{a.Course}}, &answer); err != nil {
		return "", err
	}
	for _, p := range answer.Pages {
		if fmt.Sprint(p.Module) == a.ID {
			return p.Content, nil
		}
	}
	return "", nil
}

// Describe implements [source.Source].
func (s *Source) Describe(
	ctx context.Context, course string, set source.Settings, out source.Out,
) ([]source.Person, error) {
	origin := source.Origin{URL: fmt.Sprintf("%s/course/view.php?id=%s", s.c.base, course)}
	raw, err := s.c.call(ctx, "core_course_get_courses_by_field", params{"field": "id", "value": course}, nil)
	if err != nil {
		return nil, err
	}
	if err := s.putJSON(ctx, out, "metadata/course.json", origin, raw); err != nil {
		return nil, err
	}
	lacks, err := s.lacks(ctx, "core_enrol_get_enrolled_users")
	if err != nil || lacks != "" {
		return nil, err
	}
	people, err := s.people(ctx, course)
	if err != nil {
		return nil, err
	}
	rows := [][]string{{"user", "username", "number", "name", "email", "roles", "groups"}}
	for _, p := range people {
		rows = append(rows, []string{p.ID, p.Username, p.Number, p.Name, p.Email, strings.Join(p.Roles, ";"),
			strings.Join(p.Groups, ";")})
	}
	if err := putTable(ctx, out, "metadata/people.csv", origin, rows); err != nil {
		return nil, err
	}
	return people, s.grades(ctx, course, origin, out)
}

// grades writes a table of all grades of a course.
func (s *Source) grades(ctx context.Context, course string, origin source.Origin, out source.Out) error {
	const function = "gradereport_user_get_grade_items"
	if lacks, err := s.lacks(ctx, function); err != nil || lacks != "" {
		return err
	}
	var answer struct {
		Users []struct {
			ID     int    `json:"userid"`
			Name   string `json:"userfullname"`
			Number string `json:"useridnumber"`
			Items  []struct {
				Name     string   `json:"itemname"`
				Type     string   `json:"itemtype"`
				Module   string   `json:"itemmodule"`
				Activity int      `json:"cmid"`
				Grade    *float64 `json:"graderaw"`
				Max      float64  `json:"grademax"`
				Shown    string   `json:"gradeformatted"`
				Graded   int64    `json:"gradedategraded"`
				Feedback string   `json:"feedback"`
			} `json:"gradeitems"`
		} `json:"usergrades"`
	}
	raw, err := s.c.call(ctx, function, params{"courseid": course}, &answer)
	if err != nil {
		return err
	}
	if err := s.putAnswer(ctx, out, function, origin, raw); err != nil {
		return err
	}
	rows := [][]string{{"user", "name", "number", "activity", "item", "kind", "grade", "maximum", "shown", "graded",
		"feedback"}}
	for _, u := range answer.Users {
		for _, i := range u.Items {
			mark := ""
			if i.Grade != nil {
				mark = text(*i.Grade)
			}
			rows = append(rows, []string{fmt.Sprint(u.ID), u.Name, u.Number, fmt.Sprint(i.Activity), i.Name,
				firstOf(i.Module, i.Type), mark, text(i.Max), i.Shown, when(i.Graded), plainText(i.Feedback)})
		}
	}
	return putTable(ctx, out, "metadata/grades.csv", origin, rows)
}
