package servertest

import (
	"html"
	"net/url"
	"regexp"
	"strings"
)

var (
	fieldTag  = regexp.MustCompile(`(?s)<input([^>]*)>|<select([^>]*)>(.*?)</select>`)
	optionTag = regexp.MustCompile(`<option([^>]*)>([^<]*)</option>`)
	nameOf    = regexp.MustCompile(`\bname="([^"]*)"`)
	valueOf   = regexp.MustCompile(`\bvalue="([^"]*)"`)
)

// Sent returns what a browser sends of a form of a page as it is, without the empty fields. The form is the one that
// begins with a text.
func Sent(page, form string) url.Values {
	_, after, _ := strings.Cut(page, form)
	text, _, _ := strings.Cut(after, "</form>")
	sent := url.Values{}
	for _, field := range fieldTag.FindAllStringSubmatch(text, -1) {
		name := first(nameOf, field[1]+field[2])
		if strings.HasPrefix(field[0], "<input") {
			sent[name] = append(sent[name], first(valueOf, field[1]))
			continue
		}
		var chosen []string
		for i, option := range optionTag.FindAllStringSubmatch(field[3], -1) {
			value := option[2]
			if strings.Contains(option[1], "value=") {
				value = first(valueOf, option[1])
			}
			several := strings.Contains(field[2], " multiple")
			selected := strings.Contains(option[1], " selected")
			switch {
			case several && selected:
				chosen = append(chosen, html.UnescapeString(value))
			case !several && (selected || i == 0):
				chosen = []string{html.UnescapeString(value)}
			}
		}
		sent[name] = append(sent[name], chosen...)
	}
	for name, values := range sent {
		if strings.Join(values, "") == "" {
			delete(sent, name)
		}
	}
	return sent
}

// first returns the first group of the first match.
func first(of *regexp.Regexp, text string) string {
	found := of.FindStringSubmatch(text)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}
