// Package moodle reads the activities of a Moodle by its standard web services: no plugin is needed, only an account
// with a token. It was written against Moodle 4.3. [Source.Check] reports the functions that a Moodle lacks. What
// depends on them is left out with a warning.
package moodle

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/archive/source"
)

// Options describe a Moodle and the account that reads it.
type Options struct {
	URL        string // of the Moodle, such as https://moodle.example.org
	Token      string // of the web service
	Categories []int  // whose courses may be archived, with those below; none: all
	Login      Login  // starts backups; empty: none are started
	HTTP       *http.Client
	Now        func() time.Time // defaults to time.Now
}

// String gives what is no secret.
func (o Options) String() string { return fmt.Sprintf("%s token=*** login=%s", o.URL, o.Login) }

// GoString gives what is no secret.
func (o Options) GoString() string { return o.String() }

// Source is a Moodle.
type Source struct {
	o Options
	c *client

	mu    sync.Mutex
	facts *info // of the Moodle, read once

	now     func() time.Time
	browser chan struct{} // holds a value while session is used
	session *session      // nil: not used yet

	startWait time.Duration
	sentMu    sync.Mutex // guards sent
	sent      *start     // the last start of a backup; nil: its answer was seen
}

// New makes a source. It makes no request.
func New(o Options) (*Source, error) {
	u, err := url.Parse(strings.TrimRight(o.URL, "/"))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the address of the Moodle: %w", err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the address of the Moodle %q is not one such as https://moodle.example.org", o.URL)
	case o.Token == "":
		return nil, errors.New("the token of the Moodle is missing")
	}
	h := http.Client{Timeout: time.Hour}
	if o.HTTP != nil {
		h = *o.HTTP
	}
	h.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &client{base: u, token: o.Token, http: &h, now: o.Now, idle: idleTimeout}
	return &Source{o: o, c: c, now: o.Now, browser: make(chan struct{}, 1), startWait: startWait}, nil
}

// info is what the Moodle states of itself.
type info struct {
	Name      string `json:"sitename"`
	URL       string `json:"siteurl"`
	Release   string `json:"release"`
	Version   string `json:"version"`
	User      string `json:"username"`
	Admin     bool   `json:"userissiteadmin"`
	Download  int    `json:"downloadfiles"`
	Functions []struct {
		Name string `json:"name"`
	} `json:"functions"`
	has map[string]bool
}

// needed are the functions without which nothing can be archived; optional ones are named with what they are for.
var (
	needed   = []string{"core_course_get_contents", "core_course_get_courses_by_field"}
	optional = map[string]string{
		"core_enrol_get_enrolled_users":         "names of people, and the attempts of quizzes",
		"gradereport_user_get_grade_items":      "grades",
		"mod_quiz_get_quizzes_by_courses":       "quizzes",
		oldAttempts:                             "attempts of quizzes",
		"mod_quiz_get_attempt_review":           "attempts of quizzes",
		"mod_assign_get_assignments":            "assignments",
		"mod_assign_get_submissions":            "submissions of assignments",
		"mod_assign_get_grades":                 "changes of grades of assignments",
		"mod_assign_list_participants":          "feedback and earlier attempts of assignments",
		"mod_assign_get_submission_status":      "feedback and earlier attempts of assignments",
		"mod_forum_get_forums_by_courses":       "forums",
		"mod_forum_get_forum_discussions":       "forums",
		"mod_forum_get_discussion_posts":        "forums",
		"core_course_get_categories":            "the restriction to categories",
		"core_files_get_files":                  "backups",
		"mod_page_get_pages_by_courses":         "the source text of pages",
		"core_backup_get_async_backup_progress": "backups that the Moodle makes in the background",
	}
)

func (s *Source) info(ctx context.Context) (*info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.facts != nil {
		return s.facts, nil
	}
	var i info
	if _, err := s.c.call(ctx, "core_webservice_get_site_info", nil, &i); err != nil {
		return nil, err
	}
	i.has = map[string]bool{}
	for _, f := range i.Functions {
		i.has[f.Name] = true
	}
	if i.has[newAttempts] {
		i.has[oldAttempts] = true
	}
	s.facts = &i
	return &i, nil
}

// Check implements [source.Source].
func (s *Source) Check(ctx context.Context) (source.Facts, error) {
	s.mu.Lock()
	s.facts = nil // what an administrator changed is seen
	s.mu.Unlock()
	i, err := s.info(ctx)
	if err != nil {
		return source.Facts{}, err
	}
	f := source.Facts{Kind: "moodle", Name: i.Name, URL: i.URL, Version: i.Release}
	if own, err := url.Parse(i.URL); i.URL != "" && (err != nil || own.Host != s.c.base.Host ||
		own.Scheme != s.c.base.Scheme || strings.TrimRight(own.Path, "/") != s.c.base.Path) {
		return f, &source.Error{Op: "core_webservice_get_site_info", Code: "wrongaddress",
			Err: fmt.Errorf("the Moodle names itself %s: set this as its address", i.URL)}
	}
	var lacking []string
	for _, name := range needed {
		if !i.has[name] {
			lacking = append(lacking, name)
		}
	}
	if len(lacking) > 0 {
		return f, &source.Error{Op: "core_webservice_get_site_info", Code: "accessexception",
			Err: fmt.Errorf("add to the web service of the token: %s", strings.Join(lacking, ", "))}
	}
	if i.Download == 0 {
		return f, &source.Error{Op: "core_webservice_get_site_info", Code: "accessexception",
			Err: errors.New("the web service of the token does not permit downloads: set \"Can download files\"")}
	}
	for _, name := range slices.Sorted(maps.Keys(optional)) {
		if !i.has[name] {
			f.Warnings = append(f.Warnings, fmt.Sprintf("%s is not in the web service of the token: without it, no %s",
				name, optional[name]))
		}
	}
	if i.Admin {
		f.Warnings = append(f.Warnings, "the token is of an administrator: an account with fewer rights is enough")
	}
	return f, nil
}

func (s *Source) lacks(ctx context.Context, functions ...string) (string, error) {
	i, err := s.info(ctx)
	if err != nil {
		return "", err
	}
	for _, f := range functions {
		if !i.has[f] {
			return f, nil
		}
	}
	return "", nil
}

type course struct {
	ID         int    `json:"id"`
	Name       string `json:"fullname"`
	ShortName  string `json:"shortname"`
	Number     string `json:"idnumber"`
	Category   int    `json:"categoryid"`
	CategoryOf string `json:"categoryname"`
	Start      int64  `json:"startdate"`
	End        int64  `json:"enddate"`
}

// Courses implements [source.Source].
func (s *Source) Courses(ctx context.Context, ids []string) ([]source.Course, error) {
	allowed, err := s.allowed(ctx)
	if err != nil {
		return nil, err
	}
	requests := []params{{}}
	if ids != nil {
		requests = nil
		for _, id := range ids {
			requests = append(requests, params{"field": "id", "value": id})
		}
	}
	var out []source.Course
	for _, p := range requests {
		var answer struct{ Courses []course }
		if _, err := s.c.call(ctx, "core_course_get_courses_by_field", p, &answer); err != nil {
			return nil, err
		}
		if ids != nil && len(answer.Courses) == 0 {
			return nil, &source.Error{Op: "course " + p["value"].(string), Code: "invalidrecord",
				Err: errors.New("not found, or the account has no right to view it (moodle/course:view, " +
					"moodle/course:viewhiddencourses)")}
		}
		for _, one := range answer.Courses {
			switch {
			case one.ID == 1: // the front page
			case allowed != nil && !allowed[strconv.Itoa(one.Category)]:
				if ids != nil {
					return nil, &source.Error{Op: fmt.Sprint("course ", one.ID), Code: "nopermissions",
						Err: fmt.Errorf("courses of the category %q are not archived", one.CategoryOf)}
				}
			default:
				out = append(out, source.Course{
					ID: strconv.Itoa(one.ID), Name: plainText(one.Name), ShortName: plainText(one.ShortName),
					Number: one.Number, Category: plainText(one.CategoryOf), CategoryID: strconv.Itoa(one.Category),
					Start: stamp(one.Start), End: stamp(one.End),
					URL: fmt.Sprintf("%s/course/view.php?id=%d", s.c.base, one.ID),
				})
			}
		}
	}
	return out, nil
}

// allowed gives the categories whose courses may be archived, with those below them; nil: all.
func (s *Source) allowed(ctx context.Context) (map[string]bool, error) {
	if len(s.o.Categories) == 0 {
		return nil, nil
	}
	var ids []string
	for _, id := range s.o.Categories {
		ids = append(ids, strconv.Itoa(id))
	}
	return s.Below(ctx, ids)
}

// Below implements [source.Categorized].
func (s *Source) Below(ctx context.Context, categories []string) (map[string]bool, error) {
	var all []struct {
		ID   int    `json:"id"`
		Path string `json:"path"` // ids from the root: /1/7
	}
	if _, err := s.c.call(ctx, "core_course_get_categories", nil, &all); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, one := range all {
		for above := range strings.SplitSeq(one.Path, "/") {
			if slices.Contains(categories, above) {
				out[strconv.Itoa(one.ID)] = true
			}
		}
	}
	return out, nil
}

// content is a file of an activity, as core_course_get_contents lists it.
type content struct {
	Type     string `json:"type"`
	Name     string `json:"filename"`
	Path     string `json:"filepath"`
	Size     int64  `json:"filesize"`
	URL      string `json:"fileurl"`
	Modified int64  `json:"timemodified"`
	MIME     string `json:"mimetype"`
}

type module struct {
	ID       int       `json:"id"`
	Instance int       `json:"instance"`
	Context  int       `json:"contextid"`
	Name     string    `json:"name"`
	Module   string    `json:"modname"`
	URL      string    `json:"url"`
	Visible  int       `json:"visible"`
	Contents []content `json:"contents"`
	Info     struct {
		Modified int64 `json:"lastmodified"`
	} `json:"contentsinfo"`
	Description string `json:"description"`
}

type section struct {
	Name    string   `json:"name"`
	Modules []module `json:"modules"`
}

// contentsOf are the parameters for the contents of a course, with activities that are available but not shown.
func contentsOf(course string, option params) params {
	return params{"courseid": course, "options": []params{option, {"name": "includestealthmodules", "value": "1"}}}
}

// Activities implements [source.Source].
func (s *Source) Activities(ctx context.Context, course string) ([]source.Activity, error) {
	var sections []section
	p := contentsOf(course, params{"name": "excludecontents", "value": "1"})
	if _, err := s.c.call(ctx, "core_course_get_contents", p, &sections); err != nil {
		return nil, err
	}
	var out []source.Activity
	for _, sec := range sections {
		for _, m := range sec.Modules {
			out = append(out, source.Activity{
				Course: course, ID: strconv.Itoa(m.ID), Module: m.Module, Instance: strconv.Itoa(m.Instance),
				Context: strconv.Itoa(m.Context), Name: plainText(m.Name), URL: m.URL, Section: plainText(sec.Name),
				Hidden: m.Visible == 0, Modified: stamp(m.Info.Modified),
			})
		}
	}
	return out, nil
}

// module reads one activity with its contents.
func (s *Source) module(ctx context.Context, a source.Activity) (*module, []byte, error) {
	var sections []section
	p := contentsOf(a.Course, params{"name": "cmid", "value": a.ID})
	answer, err := s.c.call(ctx, "core_course_get_contents", p, &sections)
	if err != nil {
		return nil, nil, err
	}
	for _, sec := range sections {
		for _, m := range sec.Modules {
			if strconv.Itoa(m.ID) == a.ID {
				return &m, answer, nil
			}
		}
	}
	return nil, nil, &source.Error{Op: "activity " + a.ID, Code: "invalidrecord",
		Err: errors.New("it is not in its course any more")}
}

// Archivable implements [source.Source].
func (s *Source) Archivable(a source.Activity) (reason string) {
	if kinds[a.Module] == nil {
		return fmt.Sprintf("activities of the kind %q are archived by a backup of the course only", a.Module)
	}
	return ""
}

// kind is what differs between kinds of activities.
type kind interface {
	// needs lists the functions without which the kind cannot be archived.
	needs() []string
	// state gives what a fingerprint is made of.
	state(ctx context.Context, s *Source, a source.Activity) (any, error)
	plan(ctx context.Context, s *Source, a source.Activity, set source.Settings) (*source.Plan, error)
	fetch(
		ctx context.Context, s *Source, a source.Activity, item source.Item, set source.Settings, out source.Out,
	) error
}

var kinds = map[string]kind{
	"quiz": quiz{}, "assign": assign{}, "forum": forum{},
	"page": contents{}, "resource": contents{}, "folder": contents{},
	"url": contents{}, "label": contents{}, "book": contents{}, "imscp": contents{},
}

// Fingerprint implements [source.Source]: the SHA-256 of JSON with sorted keys.
func (s *Source) Fingerprint(ctx context.Context, a source.Activity) (string, error) {
	k, err := s.kind(ctx, a)
	if err != nil {
		return "", err
	}
	state, err := k.state(ctx, s, a)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(state)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// kind gives that of an activity, whose functions the web service must have.
func (s *Source) kind(ctx context.Context, a source.Activity) (kind, error) {
	if reason := s.Archivable(a); reason != "" {
		return nil, &source.Error{Op: "activity " + a.ID, Code: "unsupported", Err: errors.New(reason)}
	}
	k := kinds[a.Module]
	lacks, err := s.lacks(ctx, k.needs()...)
	if err != nil {
		return nil, err
	}
	if lacks != "" {
		return nil, &source.Error{Op: "activity " + a.ID, Code: "accessexception", Err: fmt.Errorf(
			"activities of the kind %s need a function: add to the web service of the token: %s", a.Module, lacks)}
	}
	return k, nil
}

// Plan implements [source.Source].
func (s *Source) Plan(ctx context.Context, a source.Activity, set source.Settings) (*source.Plan, error) {
	k, err := s.kind(ctx, a)
	if err != nil {
		return nil, err
	}
	return k.plan(ctx, s, a, set)
}

// Fetch implements [source.Source].
func (s *Source) Fetch(
	ctx context.Context, a source.Activity, item source.Item, set source.Settings, out source.Out,
) error {
	k, err := s.kind(ctx, a)
	if err != nil {
		return err
	}
	return k.fetch(ctx, s, a, item, set, out)
}

// stamp reads a time as Moodle writes it; zero: there is none.
func stamp(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

type user struct {
	ID       int    `json:"id"`
	Username string `json:"username"`
	Number   string `json:"idnumber"`
	First    string `json:"firstname"`
	Last     string `json:"lastname"`
	Name     string `json:"fullname"`
	Email    string `json:"email"`
	Roles    []struct {
		Name string `json:"shortname"`
	} `json:"roles"`
	Groups []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
	} `json:"groups"`
}

func (u user) person() source.Person {
	p := source.Person{
		ID: strconv.Itoa(u.ID), Username: u.Username, Number: u.Number, First: u.First, Last: u.Last,
		Name: cmp.Or(u.Name, strings.TrimSpace(u.First+" "+u.Last)), Email: u.Email,
	}
	for _, r := range u.Roles {
		p.Roles = append(p.Roles, r.Name)
	}
	for _, g := range u.Groups {
		p.Groups, p.GroupIDs = append(p.Groups, g.Name), append(p.GroupIDs, strconv.Itoa(g.ID))
	}
	return p
}

// people lists those who are enrolled in a course.
func (s *Source) people(ctx context.Context, course string) ([]source.Person, error) {
	var users []user
	if _, err := s.c.call(ctx, "core_enrol_get_enrolled_users", params{"courseid": course}, &users); err != nil {
		return nil, err
	}
	out := make([]source.Person, 0, len(users))
	for _, u := range users {
		out = append(out, u.person())
	}
	return out, nil
}
