package sqldb

import (
	"strconv"
	"strings"
	"sync"
)

// statement is a statement as PostgreSQL understands it.
type statement struct {
	text string
	args []int // of each parameter of text, the argument of the caller, from 0
}

// statements are those that were rewritten, by their text for SQLite. Lists in many forms do not fill the memory.
type statements struct {
	mu  sync.Mutex // guards all
	all map[string]statement
}

const mostStatements = 512

func (s *statements) of(query string) statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[query]
	if !ok {
		one = rewrite(query)
		if s.all == nil || len(s.all) >= mostStatements {
			s.all = map[string]statement{}
		}
		s.all[query] = one
	}
	return one
}

// rewrite replaces the parameters ? and ?N by $1, $2 ... in the order in which they appear, so that none is missing in
// a statement that uses a part of the arguments. As in SQLite, ? has the number after the highest one before it.
// Texts and names in quotes, and comments, stay.
func rewrite(query string) statement {
	var b strings.Builder
	var s statement
	number := map[int]int{} // by the argument of the caller
	next := 0
	for i := 0; i < len(query); {
		if end := quoted(query[i:]); end > 0 {
			b.WriteString(query[i : i+end])
			i += end
			continue
		}
		if query[i] != '?' {
			b.WriteByte(query[i])
			i++
			continue
		}
		end := i + 1
		for end < len(query) && query[end] >= '0' && query[end] <= '9' {
			end++
		}
		arg := next
		if n, err := strconv.Atoi(query[i+1 : end]); err == nil {
			arg = n - 1
		}
		next = max(next, arg+1)
		if number[arg] == 0 {
			s.args = append(s.args, arg)
			number[arg] = len(s.args)
		}
		b.WriteString("$" + strconv.Itoa(number[arg]))
		i = end
	}
	s.text = b.String()
	return s
}

// quoted gives the length of the quoted part, or of the comment, with which a text begins; 0: it begins with neither.
func quoted(text string) int {
	end, skip := "", 1
	switch {
	case text[0] == '\'' || text[0] == '"':
		end = text[:1]
	case strings.HasPrefix(text, "--"):
		end, skip = "\n", 2
	case strings.HasPrefix(text, "/*"):
		end, skip = "*/", 2
	default:
		return 0
	}
	at := strings.Index(text[skip:], end)
	if at < 0 {
		return len(text)
	}
	return skip + at + len(end)
}
