package rules

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Age is the key of a job in a list of ended jobs in the order of their last changes.
type Age struct {
	Changed int64 // the time, in the unit of the store
	Row     int64
}

// Compare orders two keys.
func (a Age) Compare(b Age) int {
	return cmp.Or(cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Row, b.Row))
}

// Cursor is the key as the cursor of a page.
func (a Age) Cursor() string { return fmt.Sprintf("%d,%d", a.Changed, a.Row) }

// ParseAge is the reverse of [Age.Cursor]. some is false for the cursor of the first page.
func ParseAge(cursor string) (a Age, some bool, err error) {
	if cursor == "" {
		return a, false, nil
	}
	changed, row, _ := strings.Cut(cursor, ",")
	if a.Changed, err = strconv.ParseInt(changed, 10, 64); err == nil {
		a.Row, err = strconv.ParseInt(row, 10, 64)
	}
	if err != nil {
		err = job.Errorf(job.Invalid, "list", "", "bad cursor %q", cursor)
	}
	return a, true, err
}

// Ends is an index, in memory, of the ended jobs of each kind and state in the order of their last changes.
type Ends map[endState][]Age

type endState struct {
	kind  job.Kind
	state lifecycle.State
}

func ageOf(j *job.Job, row int64) (endState, Age) {
	return endState{j.Kind, j.State}, Age{j.Changed.UnixNano(), row}
}

// Replace replaces the job of a row: before is nil for a new one, after for one that was purged.
func (e Ends) Replace(before, after *job.Job, row int64) {
	if before != nil && before.Ended {
		of, a := ageOf(before, row)
		if at, found := slices.BinarySearchFunc(e[of], a, Age.Compare); found {
			e[of] = slices.Delete(e[of], at, at+1)
		}
	}
	if after != nil && after.Ended {
		of, a := ageOf(after, row)
		at, _ := slices.BinarySearchFunc(e[of], a, Age.Compare)
		e[of] = slices.Insert(e[of], at, a)
	}
}

// Page returns a page of a list of ended jobs, and how many jobs were visited. get returns the job of a row.
func (e Ends) Page(q *job.EndedQuery, get func(row int64) job.Job) (page job.Page, visited int, err error) {
	after, some, err := ParseAge(q.After)
	if err != nil || q.Before.IsZero() {
		return page, 0, err
	}
	var oldest []Age
	for i, state := range q.States {
		if slices.Contains(q.States[:i], state) {
			continue
		}
		all, before := e[endState{q.Kind, state}], q.Before.UnixNano()
		first := 0
		if some {
			first = sort.Search(len(all), func(i int) bool { return all[i].Compare(after) > 0 })
		}
		for _, a := range all[first:min(len(all), first+q.PageSize()+1)] {
			if a.Changed >= before {
				break
			}
			oldest = append(oldest, a)
		}
	}
	slices.SortFunc(oldest, Age.Compare)
	list, last := NewPage(q), Age{}
	for _, a := range oldest {
		j := get(a.Row)
		if !list.Add(&j) {
			page.Next = last.Cursor()
			break
		}
		last = a
	}
	page.Jobs = list.Jobs
	for i := range page.Jobs {
		page.Jobs[i].Own()
	}
	return page, len(oldest), nil
}
