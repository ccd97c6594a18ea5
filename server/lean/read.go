package lean

import (
	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// ReadClaim reads the body of a claim. It returns false, with nothing of use in c, for any text beyond what workers
// usually send: defective texts, repeated or unknown members, escapes, fractions. encoding/json decides about those.
func ReadClaim(text []byte, c *api.Claim) bool {
	r := reader{text: text}
	r.object(func(name []byte) (member int) {
		switch string(name) {
		case "worker":
			c.Worker = r.str()
			return 0
		case "from":
			c.From = r.places()
			return 1
		case "n":
			c.N = int(r.number())
			return 2
		case "lease":
			c.Lease = float64(r.number())
			return 3
		case "wait":
			c.Wait = float64(r.number())
			return 4
		}
		return unknown
	})
	return r.ended()
}

func (r *reader) places() []job.KindState {
	all := []job.KindState{}
	r.array(func() {
		all = append(all, job.KindState{})
		p := &all[len(all)-1]
		r.object(func(name []byte) (member int) {
			switch string(name) {
			case "kind":
				p.Kind = job.Kind(r.str())
				return 0
			case "state":
				p.State = lifecycle.State(r.str())
				return 1
			}
			return unknown
		})
	})
	return all
}

// ReadReports reads the body of reports without data, tasks, messages, log lines and children, as [ReadClaim] does.
func ReadReports(text []byte, to *api.Reports) bool {
	r := reader{text: text}
	r.object(func(name []byte) (member int) {
		switch string(name) {
		case "worker":
			to.Worker = r.str()
			return 0
		case "lease":
			to.Lease = float64(r.number())
			return 2
		case "reports":
			to.Reports = []api.Report{}
			r.array(func() {
				to.Reports = append(to.Reports, api.Report{})
				r.report(&to.Reports[len(to.Reports)-1])
			})
			return 1
		}
		return unknown
	})
	return r.ended()
}

func (r *reader) report(to *api.Report) {
	r.object(func(name []byte) (member int) {
		switch string(name) {
		case "job":
			to.Job = job.ID(r.str())
			return 0
		case "epoch":
			to.Epoch = r.number()
			return 1
		case "event":
			to.Event = lifecycle.Event(r.str())
			return 2
		case "retry":
			to.Retry = r.str()
			return 3
		case "after":
			to.After = float64(r.number())
			return 4
		case "fail":
			to.Fail = r.str()
			return 5
		case "cause":
			to.Cause = r.str()
			return 6
		case "again":
			to.Again = r.truth()
			return 7
		case "advanced":
			to.Advanced = r.truth()
			return 8
		case "message":
			message := r.str()
			to.Message = &message
			return 9
		}
		return unknown
	})
}

// unknown is what the function of an object returns for a member that it does not read.
const unknown = -1

// reader reads the part of JSON in which no two readers differ.
type reader struct {
	text []byte
	at   int
	bad  bool // nothing is read any more
}

// ended reports whether all of the text was read.
func (r *reader) ended() bool {
	r.space()
	return !r.bad && r.at == len(r.text)
}

// space passes over blanks and returns the byte behind them, 0 at the end.
func (r *reader) space() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// take passes over blanks and c, and reports whether it was there.
func (r *reader) take(c byte) bool {
	if r.bad || r.space() != c {
		return false
	}
	r.at++
	return true
}

// object reads an object. member reads the value of the member and returns a number of its own from 0 to 63.
func (r *reader) object(member func(name []byte) int) {
	var seen uint64
	r.list('{', '}', func() {
		name := r.quoted()
		if r.bad = r.bad || !r.take(':'); r.bad {
			return
		}
		n := member(name)
		if n == unknown || seen&(1<<n) != 0 {
			r.bad = true
			return
		}
		seen |= 1 << n
	})
}

func (r *reader) array(element func()) { r.list('[', ']', element) }

func (r *reader) list(open, end byte, element func()) {
	if !r.take(open) {
		r.bad = true
		return
	}
	if r.take(end) {
		return
	}
	for !r.bad {
		element()
		if r.take(end) {
			return
		}
		r.bad = r.bad || !r.take(',')
	}
}

// quoted reads a string of printable ASCII without escapes and returns what is between its quotes.
func (r *reader) quoted() []byte {
	if !r.take('"') {
		r.bad = true
		return nil
	}
	from := r.at
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from : r.at-1]
		case c < ' ' || c > '~' || c == '\\':
			r.bad = true
			return nil
		}
	}
	r.bad = true
	return nil
}

func (r *reader) str() string { return string(r.quoted()) }

// number reads a whole number from 0 to 10^15-1, which a float64 has exactly.
func (r *reader) number() (n int64) {
	r.space()
	from := r.at
	for ; r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9'; r.at++ {
		if r.at-from == 15 {
			r.bad = true
			return 0
		}
		n = 10*n + int64(r.text[r.at]-'0')
	}
	if digits := r.at - from; digits == 0 || digits > 1 && r.text[from] == '0' {
		r.bad = true
	}
	return n
}

func (r *reader) truth() bool {
	r.space()
	for _, word := range [...]string{"true", "false"} {
		if rest := r.text[r.at:]; len(rest) >= len(word) && string(rest[:len(word)]) == word {
			r.at += len(word)
			return word == "true"
		}
	}
	r.bad = true
	return false
}
