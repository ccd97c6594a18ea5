// Package amount writes numbers, durations and distances of time for people.
package amount

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
)

// Count writes a number with thin spaces between groups of three digits.
func Count(n any) string {
	text := fmt.Sprint(n)
	sign := ""
	if strings.HasPrefix(text, "-") {
		sign, text = "-", text[1:]
	}
	if len(text) < 5 {
		return sign + text
	}
	var groups []string
	for len(text) > 3 {
		groups = append([]string{text[len(text)-3:]}, groups...)
		text = text[:len(text)-3]
	}
	return sign + strings.Join(append([]string{text}, groups...), "\u202f")
}

// Span writes a duration with its two largest units.
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 48*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	}
	return two(int(d.Hours())/24, "days", int(d.Hours())%24, "h")
}

func two(n int, unit string, rest int, small string) string {
	if rest == 0 {
		return fmt.Sprintf("%d %s", n, unit)
	}
	return fmt.Sprintf("%d %s %d %s", n, unit, rest, small)
}

// Ago writes how long ago a time was, or in how long it will be; "" for the zero time.
func Ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < -time.Second:
		return "in " + largest(-d)
	case d < time.Second:
		return "just now"
	default:
		return largest(d) + " ago"
	}
}

// largest writes a duration with its largest unit alone.
func largest(d time.Duration) string {
	words := strings.Fields(Span(d))
	return strings.Join(words[:min(2, len(words))], " ")
}

// Expectation states in words when a job should end; "" if nothing is known.
func Expectation(x *api.Expected) string {
	var all []string
	if x.StepMS > 0 {
		all = append(all, "Usually "+roughly(time.Duration(x.StepMS)*time.Millisecond)+" for this step")
	}
	if left := x.Finish.Sub(x.At); !x.Finish.IsZero() {
		all = append(all, about(roughly(left))+" until the end at present")
	}
	text := strings.Join(all, "; ")
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:] + "."
	}
	if x.Longer {
		text = strings.TrimSpace(text + " This step takes longer than usual now.")
	}
	return text
}

// about marks a number as not exact.
func about(text string) string {
	if text[0] >= '0' && text[0] <= '9' {
		return "about " + text
	}
	return text
}

// roughly writes a duration for people, with one unit.
func roughly(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if n := int((d + u.of/2) / u.of); d >= u.of*9/10 && n == 1 {
			return "1 " + u.name
		} else if d >= u.of*9/10 {
			return strconv.Itoa(n) + " " + u.name + "s"
		}
	}
	return "less than a minute"
}

// Percent returns a part of a whole, from 0 to 100.
func Percent(part, whole any) int {
	p, _ := strconv.ParseFloat(fmt.Sprint(part), 64)
	w, _ := strconv.ParseFloat(fmt.Sprint(whole), 64)
	if w <= 0 {
		return 0
	}
	return int(min(100, 100*p/w))
}

// Plural returns the word for a number of things.
func Plural(n any, one, many string) string {
	if fmt.Sprint(n) == "1" {
		return one
	}
	return many
}
