package lifecycle

// View says what of a table a drawing shows and marks. The zero View draws the plain table without its loops.
type View struct {
	Current Position // the state that is lit; none when its State is empty
	Path    []Taken  // the arrows taken so far, from the start; marked up to the first that the table does not allow
	By      Actor    // whose legal exits from Current are strong; everybody's when 0
	Loops   bool     // show the arrows that stay in their state
}

// step is one arrow as drawn: a re-entering arrow has as many as it has targets.
type step struct {
	from  State
	event Event
	to    State
}

// marks are the steps of a table that a view singles out.
type marks struct {
	legal map[step]bool
	taken map[step]bool
	been  map[State]bool // states on the path
}

func (t *Table) marks(v View) marks {
	m := marks{legal: map[step]bool{}, taken: map[step]bool{}, been: map[State]bool{}}
	p := t.Start()
	for _, move := range v.Path {
		next, err := t.Next(p, move.Event, move.By)
		if err != nil {
			break
		}
		m.been[p.State] = true
		m.taken[step{p.State, move.Event, next.State}] = true
		p = next
	}
	by := v.By
	if by == 0 {
		by = Worker | Timer | Operator | Owner | Engine
	}
	stage, ok := t.stage(v.Current.State)
	if !ok {
		return m
	}
	for _, a := range stage.Arrows {
		if t.refuse(v.Current, a, by) == "" {
			m.legal[step{stage.State, a.Event, t.follow(v.Current, a).State}] = true
		}
	}
	return m
}
