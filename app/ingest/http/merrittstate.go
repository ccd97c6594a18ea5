package ingesthttp

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"strings"
)

// writeState writes an answer in its form.
func writeState(w http.ResponseWriter, status int, form string, s state) error {
	media, text := "text/xml; charset=utf-8", ""
	switch form {
	case answerJSON:
		media, text = "application/json", s.json()
	case answerANVL:
		media, text = "text/x-anvl; charset=utf-8", s.anvl()
	default:
		text = s.xml()
	}
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n"))
	return nil
}

// state is an answer of Merritt: members of one namespace, in their order.
type state struct {
	prefix, name, space string
	members             [][2]string
}

func (s *state) json() string {
	var b strings.Builder
	b.WriteString("{" + quoted(s.prefix+":"+s.name) + ":{" + quoted("xmlns:"+s.prefix) + ":" + quoted(s.space))
	for _, m := range s.members {
		b.WriteString("," + quoted(s.prefix+":"+m[0]) + ":" + quoted(m[1]))
	}
	b.WriteString("}}")
	return b.String()
}

// quoted gives a text as JSON; marshaling a string cannot fail.
func quoted(text string) string {
	q, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(q)
}

func (s *state) xml() string {
	var b strings.Builder
	b.WriteString(xml.Header + "<" + s.prefix + ":" + s.name + " xmlns:" + s.prefix + `="` + s.space + `">`)
	for _, m := range s.members {
		name := s.prefix + ":" + m[0]
		if m[1] == "" {
			b.WriteString("<" + name + "/>")
			continue
		}
		b.WriteString("<" + name + ">")
		_ = xml.EscapeText(&b, []byte(m[1])) // a Builder does not fail
		b.WriteString("</" + name + ">")
	}
	b.WriteString("</" + s.prefix + ":" + s.name + ">")
	return b.String()
}

// encoder keeps a value of ANVL in one line.
var encoder = strings.NewReplacer("%", "%25", "\n", "%0A", "\r", "%0D")

func (s *state) anvl() string {
	lines := []string{s.name + ":"}
	for _, m := range s.members {
		lines = append(lines, m[0]+": "+encoder.Replace(m[1]))
	}
	return strings.Join(lines, "\n")
}
