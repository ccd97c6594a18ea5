package source

import (
	"context"
	"errors"
)

// Categorized is a source whose courses are in categories, which contain other categories.
type Categorized interface {
	// Below gives the ids of those of the named categories that exist, and of all categories below them.
	Below(ctx context.Context, categories []string) (map[string]bool, error)
}

// CoursesIn lists the courses that may be archived and are in categories of a source, which are named by their ids, or
// in categories below them. An unknown category is an error, and so is a source without categories.
func CoursesIn(ctx context.Context, s Source, categories []string) ([]Course, error) {
	c, ok := s.(Categorized)
	if !ok {
		return nil, &Error{Op: "courses of categories", Err: errors.New("the source has no categories")}
	}
	within, err := c.Below(ctx, categories)
	if err != nil {
		return nil, err
	}
	for _, id := range categories {
		if !within[id] {
			return nil, &Error{Op: "category " + id, Code: "invalidrecord",
				Err: errors.New("not found, or the account has no right to view it (moodle/category:viewcourselist)")}
		}
	}
	all, err := s.Courses(ctx, nil)
	var out []Course
	for _, one := range all {
		if within[one.CategoryID] {
			out = append(out, one)
		}
	}
	return out, err
}
