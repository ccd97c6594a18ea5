package flow

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
)

// LogOptions of [Logging]. The zero LogOptions work.
type LogOptions struct {
	// values with these names, and entries of objects with these keys, are logged as ***; the texts of failures are
	// logged as they are
	Mask  []string
	Level func(Event) slog.Level // defaults to [LogLevel]
	// atoms before one that failed that are logged with it, the nearest first; defaults to 10, negative: none
	Chain int
}

// LogLevel is Error for a final failure, Warn for a failure that is retried or reverted, Info for other changes of the
// flow, and Debug for the rest.
func LogLevel(e Event) slog.Level {
	switch {
	case e.New == RevertFailure, e.New == FailureState && e.Atom == "":
		return slog.LevelError
	case e.Within == Progressed:
		return slog.LevelDebug
	case e.New == FailureState, e.New == Reverted, e.New == Reverting, e.Within == TriedAgain:
		return slog.LevelWarn
	case e.Atom == "":
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Logging makes a listener that logs the events of one flow. With a failure it logs the atoms before the failed one, as
// far as it received their events. Errors: those of [New].
func Logging(log *slog.Logger, item Item, o LogOptions) (Listener, error) {
	p, err := compile(item)
	if err != nil {
		return nil, err
	}
	if o.Level == nil {
		o.Level = LogLevel
	}
	if o.Chain == 0 {
		o.Chain = 10
	}
	l := &logger{plan: p, log: log, o: o, last: map[string]Event{}, mask: map[string]bool{}}
	for _, name := range o.Mask {
		l.mask[name] = true
	}
	return l.logEvent, nil
}

// logger is the listener of Logging.
type logger struct {
	plan *plan
	log  *slog.Logger
	o    LogOptions
	mask map[string]bool
	mu   sync.Mutex // guards last
	last map[string]Event
}

func (l *logger) logEvent(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Atom != "" && e.Within == "" {
		l.last[e.Atom] = e
	}
	level := l.o.Level(e)
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("flow", e.ID)}
	what := "flow"
	if e.Atom != "" {
		what = string(e.Kind)
		attrs = append(attrs, slog.String(what, e.Atom))
	}
	text := what + " " + string(e.New)
	switch e.Within {
	case "":
		attrs = append(attrs, slog.String("before", string(e.Old)))
	case Progressed:
		text = what + " " + string(Progressed)
		attrs = append(attrs, slog.Float64("progress", e.Progress))
		if e.Details != nil {
			attrs = append(attrs, slog.String("details", l.show(e.Atom, *e.Details, false)))
		}
	default:
		text = what + " " + string(e.Within)
		if !e.Due.IsZero() {
			attrs = append(attrs, slog.Time("due", e.Due))
		}
	}
	if e.Result != nil {
		attrs = append(attrs, slog.String("result", l.show(e.Atom, *e.Result, e.New == Success)))
	}
	if e.Failure != nil {
		attrs = append(attrs, slog.String("failure", e.Failure.String()))
		if chain := l.chain(e); len(chain) > 0 {
			attrs = append(attrs, slog.Any("chain", chain))
		}
	}
	l.log.LogAttrs(context.Background(), level, text, attrs...)
}

// show returns a value as JSON with masked parts; given: it is the result of the atom, with the names of its Result.
func (l *logger) show(atom string, v Value, given bool) string {
	text, err := json.Marshal(v)
	if err != nil {
		return "(no JSON)"
	}
	if len(l.mask) == 0 {
		return truncate(string(text), longestMessage)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		return "(no JSON)"
	}
	if i, known := l.plan.byName[atom]; known && given {
		result := l.plan.nodes[i].result
		if l.mask[result.Name] {
			return "***"
		}
		if list, ok := all.([]any); ok {
			for k, name := range result.Names {
				if l.mask[name] && k < len(list) {
					list[k] = "***"
				}
			}
		}
	}
	text, err = json.Marshal(l.hide(all))
	if err != nil {
		return "(no JSON)"
	}
	return truncate(string(text), longestMessage)
}

// hide masks entries of objects, in place.
func (l *logger) hide(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = l.hide(v[i])
		}
	case map[string]any:
		for key := range v {
			if l.mask[key] {
				v[key] = "***"
			} else {
				v[key] = l.hide(v[key])
			}
		}
	}
	return v
}

// chain lists the atoms before a failed one with state and result, the nearest first.
func (l *logger) chain(e Event) []string {
	i, known := l.plan.byName[e.Atom]
	if !known || e.Within != "" {
		return nil
	}
	var all []string
	seen := map[int32]bool{i: true}
	for next := []int32{i}; len(next) > 0 && len(all) < l.o.Chain; next = next[1:] {
		for _, before := range slices.Backward(l.plan.nodes[next[0]].pred) {
			if seen[before] {
				continue
			}
			seen[before] = true
			next = append(next, before)
			n := &l.plan.nodes[before]
			if !n.isAtom() || len(all) == l.o.Chain {
				continue
			}
			text := n.name
			if was, known := l.last[n.name]; known {
				text += " " + string(was.New)
				if was.Result != nil {
					text += " " + l.show(n.name, *was.Result, was.New == Success)
				}
			}
			all = append(all, text)
		}
	}
	return all
}
