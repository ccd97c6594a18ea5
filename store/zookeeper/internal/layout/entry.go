package layout

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The range of priorities; lower runs first.
const (
	FirstPriority = 0
	LastPriority  = 99
)

// ClampPriority returns the nearest priority in the range. Names with three digits are unreadable for the original
// libraries, which cut names at a fixed column.
func ClampPriority(p int) int { return min(max(p, FirstPriority), LastPriority) }

// EntryName returns the name of a queue entry, "05-jid0000000007". The priority is clamped.
func EntryName(priority int, j JobID) string {
	return fmt.Sprintf("%02d-%s", ClampPriority(priority), j)
}

// ParseEntry parses the name of a queue entry: what is before the first "-" is the priority, of any length, and what is
// after it the job. ok is false if it is no entry.
func ParseEntry(name string) (priority int, j JobID, ok bool) {
	digits, id, found := strings.Cut(name, "-")
	p, err := strconv.Atoi(digits)
	if !found || err != nil || p < 0 || digits[0] == '+' || !JobID(id).Valid() {
		return 0, "", false
	}
	return p, JobID(id), true
}

// SortEntries sorts names of queue entries in the order of work: priority, then job. Names that are no entries are
// last.
func SortEntries(names []string) {
	slices.SortFunc(names, func(a, b string) int {
		p, j, ok := ParseEntry(a)
		q, k, also := ParseEntry(b)
		switch {
		case ok != also && ok:
			return -1
		case ok != also:
			return 1
		case !ok:
			return strings.Compare(a, b)
		case p != q:
			return p - q
		}
		return strings.Compare(string(j), string(k))
	})
}
