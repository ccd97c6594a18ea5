package moodle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/app/archive/pattern"
	"github.com/stagepost/stagepost/app/archive/source"
)

// groupsFunction gives the numbers of groups. It is called only if a pattern has them.
const groupsFunction = "core_group_get_course_groups"

// attemptNames makes the names of folders and files of attempts.
type attemptNames struct {
	folder, file pattern.Pattern
	names        source.Names
	course       source.Course     // if a pattern has its names
	numbers      map[string]string // of groups, by their ids; if a pattern has them
}

// newAttemptNames parses the patterns of the settings, and asks for what they have and the attempts do not.
func newAttemptNames(
	ctx context.Context, s *Source, a source.Activity, set source.Settings,
) (n *attemptNames, warnings []string, err error) {
	known := pattern.AttemptVariables()
	folder, err := pattern.Parse(pattern.Folder, cmp.Or(set.FolderName, pattern.DefaultFolder), known)
	file, err2 := pattern.Parse(pattern.File, cmp.Or(set.FileName, pattern.DefaultFile), known)
	if err := errors.Join(err, err2); err != nil {
		return nil, nil, &source.Error{Op: "names of attempts", Code: "invalidparameter", Err: err}
	}
	n = &attemptNames{folder: folder, file: file, names: source.Names{}}
	if n.uses("coursename") || n.uses("courseshortname") {
		courses, err := s.Courses(ctx, []string{a.Course})
		if err != nil {
			return nil, nil, err
		}
		if len(courses) > 0 {
			n.course = courses[0]
		}
	}
	if n.uses("groupidnumbers") {
		warnings, err = n.groups(ctx, s, a.Course)
	}
	return n, warnings, err
}

func (n *attemptNames) uses(variable string) bool {
	return n.folder.Uses(variable) || n.file.Uses(variable)
}

// groups asks for the numbers of the groups of a course. Without the function there is a warning, and no numbers.
func (n *attemptNames) groups(ctx context.Context, s *Source, course string) (warnings []string, err error) {
	i, err := s.info(ctx)
	if err != nil {
		return nil, err
	}
	if !i.has[groupsFunction] {
		return []string{"names have no numbers of groups: the function " + groupsFunction +
			" is not in the external service"}, nil
	}
	var groups []struct {
		ID     int    `json:"id"`
		Number string `json:"idnumber"`
	}
	if _, err := s.c.call(ctx, groupsFunction, params{"courseid": course}, &groups); err != nil {
		return nil, err
	}
	n.numbers = map[string]string{}
	for _, g := range groups {
		n.numbers[strconv.Itoa(g.ID)] = g.Number
	}
	return nil, nil
}

// item names an attempt. The times are those of the attempt, so that the names are the same in each archive.
func (n *attemptNames) item(a source.Activity, one attempt, p source.Person) attemptItem {
	var numbers []string
	for _, id := range p.GroupIDs {
		if number := n.numbers[id]; number != "" {
			numbers = append(numbers, number)
		}
	}
	values := map[string]string{
		"courseid": a.Course, "coursename": n.course.Name, "courseshortname": n.course.ShortName,
		"cmid": a.ID, "quizid": a.Instance, "quizname": a.Name,
		"attemptid": strconv.Itoa(one.ID), "username": firstOf(p.Username, p.Number, "user"+p.ID),
		"firstname": p.First, "lastname": p.Last, "idnumber": p.Number,
		"groupids": strings.Join(p.GroupIDs, "_"), "groupidnumbers": strings.Join(numbers, "_"),
		"groupnames": strings.Join(p.Groups, "_"),
		"timestart":  strconv.FormatInt(one.Start, 10), "timefinish": strconv.FormatInt(one.Finish, 10),
	}
	pattern.SetTime(values, stamp(cmp.Or(one.Finish, one.Modified, one.Start)))
	key := fmt.Sprintf("attempt-%d", one.ID)
	var safe []string
	for part := range strings.SplitSeq(n.folder.Name(values), "/") {
		safe = append(safe, source.SafeName(part))
	}
	return attemptItem{
		Attempt: one.ID, Person: p, Folder: path.Join("attempts", n.names.For(key, path.Join(safe...))),
		File: source.SafeName(n.file.Name(values)),
	}
}
