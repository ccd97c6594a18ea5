package job

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/stagepost/stagepost/lifecycle"
)

// Remedy is something that a person can do about a job that does not move: in words, as a command of the program
// stagepost, and as an operation of its API. Command and operation do the same. Without a command Doc is the whole
// remedy.
type Remedy struct {
	Doc     string          `json:"doc"`               // what it does
	Command string          `json:"command,omitempty"` // to copy; a word in capitals, such as WHY, is for the reader to replace
	Method  string          `json:"method,omitempty"`  // of the operation; empty if it has none
	Path    string          `json:"path,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// commands are the events that have a command of their own. The others are caused by the command event.
var commands = map[lifecycle.Event]bool{
	"retry": true, "cancel": true, "stop": true, "hold": true, "release": true, "delete": true,
}

// Causing returns the remedy of an event that a person causes on a job. confirm is for an event that asks for a
// confirmation.
func Causing(e lifecycle.Event, id ID, confirm bool, doc string) Remedy {
	r := Remedy{Doc: doc, Command: "stagepost event " + string(e) + " " + string(id), Method: "POST"}
	r.Path = "/api/v1/jobs/" + url.PathEscape(string(id)) + "/events/" + url.PathEscape(string(e))
	if commands[e] {
		r.Command = "stagepost " + string(e) + " " + string(id)
	}
	if confirm {
		r.Command += " --confirm"
		r.Body = json.RawMessage(`{"confirm":true}`)
	}
	return r
}

// Releasing returns the remedy that ends the hold on a scope.
func Releasing(s Scope) Remedy {
	r := Remedy{Doc: "ends the hold on " + s.String(), Command: "stagepost release", Method: "DELETE"}
	q := url.Values{}
	for _, f := range []struct{ name, value string }{
		{"group", s.Group}, {"job", string(s.Job)}, {"kind", string(s.Kind)}, {"owner", s.Owner},
		{"state", string(s.State)}, {"tag", s.Tag},
	} {
		if f.value != "" {
			q.Set(f.name, f.value)
			r.Command += " --" + f.name + " " + Quoted(f.value)
		}
	}
	if s == (Scope{}) {
		q.Set("everything", "true")
		r.Command = "stagepost admin resume"
	}
	r.Path = "/api/v1/holds?" + q.Encode()
	return r
}

// Reordering returns the remedy that gives a job a priority. A job at rest whose attempts were used up is tried again
// by it.
func Reordering(id ID, priority int, doc string) Remedy {
	return Remedy{
		Doc: doc, Command: fmt.Sprintf("stagepost priority %d %s", priority, id),
		Method: "PUT", Path: "/api/v1/jobs/" + url.PathEscape(string(id)) + "/priority",
		Body: json.RawMessage(fmt.Sprintf(`{"priority":%d}`, priority)),
	}
}

// Replaying returns the remedy that delivers a message of the outbox again.
func Replaying(key string) Remedy {
	body, _ := json.Marshal(map[string][]string{"keys": {key}}) // strings alone
	return Remedy{
		Doc: "delivers the message again", Command: "stagepost admin outbox replay " + Quoted(key) + " --note WHY",
		Method: "POST", Path: "/api/v1/outbox/replay", Body: body,
	}
}

// Running returns the remedy of a command that has no operation, such as one that shows something. words are the
// command line without the name of the program.
func Running(words, doc string) Remedy { return Remedy{Doc: doc, Command: "stagepost " + words} }

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quoted returns text as one word of a command line.
func Quoted(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
