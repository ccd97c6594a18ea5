package flowfile

import (
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/internal/nearest"
)

// key is a word of the language. The check for unknown keys and the schema are made from these tables.
type key struct {
	name   string
	schema string // JSON Schema of its value
	doc    string
}

// table is the keys of one kind of mapping.
type table []key

const (
	aText    = `{"type":"string"}`
	aName    = `{"type":"string","pattern":"^[A-Za-z0-9._/-]{1,200}$"}`
	aTime    = `{"type":"string","pattern":"^([0-9]+(\\.[0-9]+)?(ns|us|ms|s|m|h|d))+$"}`
	aFlag    = `{"type":"boolean"}`
	aCount   = `{"type":"integer","minimum":1}`
	anything = `true`
	names    = `{"anyOf":[{"$ref":"#/$defs/name"},{"type":"array","items":{"$ref":"#/$defs/name"}}]}`
	itemList = `{"type":"array","items":{"$ref":"#/$defs/item"}}`
	valueMap = `{"type":"object"}`
	nameMap  = `{"type":"object","additionalProperties":{"$ref":"#/$defs/name"}}`
	textMap  = `{"type":"object","additionalProperties":{"type":["string","number","boolean"]}}`
	aCommand = `{"anyOf":[{"type":"string"},` +
		`{"type":"array","minItems":1,"items":{"type":["string","number","boolean"]}}]}`
	anOutput  = `{"enum":["line","text","json","none"]}`
	aPosition = `{"type":"array","items":{"type":["string","null"]}}`
)

var headKeys = table{
	{"flow", aName, "The name of the flow."},
	{"about", aText, "For people."},
	{"inputs", `{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#/$defs/input"},` +
		`{"type":["string","number","boolean","null","array"]}]}}`,
		"Values of the flow, with their defaults; a submission may give others."},
	{"at_deadline", `{"enum":["revert","keep"]}`,
		"What becomes of what was done when the flow has not ended by its deadline: it is reverted (the default), or " +
			"kept."},
}

var inputKeys = table{
	{"required", aFlag, "A submission must give it."},
	{"path", aFlag, "It is a path or a list of paths: relative ones are below the directory in which the flow is " +
		"submitted."},
	{"default", anything, "Its value if a submission gives none."},
	{"about", aText, "For people."},
}

var partKeys = table{
	{"linear", itemList, "Items that are done one after another."},
	{"unordered", itemList, "Items that are done all at once; they do not see each other's results."},
	{"graph", itemList, "Items in the order of who needs what another provides, and of after and when."},
	{"retry", `{"anyOf":[{"type":"integer","minimum":1},{"$ref":"#/$defs/retry"}]}`,
		"Run it so many times in all until it succeeds; before each further time it is reverted."},
	{"for_each", `{"type":"array","minItems":1}`, "Run it with one value after another until it succeeds."},
	{"for_each_of", aName, "As for_each, over a list that is a value of the flow."},
	{"always_revert", aFlag, "Never run it again: when something fails, only this part is reverted."},
	{"revert_all", aFlag, "When its attempts are exhausted, the whole flow is reverted and not this part only."},
	{"as", aName, "The name under which the attempt's value is there: its number, or the value of for_each."},
	{"target", aName, "Of a graph: do this item and what it depends on, nothing else."},
}

var retryKeys = table{
	{"times", aCount, "Runs in all."},
	{"pause", aTime, "Between an attempt that was reverted and the next."},
	{"longest", aTime, "Double the pause each time, up to this."},
}

var linkKeys = table{
	{"after", names, "Items of the same graph that are done before."},
	{"when", `{"$ref":"#/$defs/condition"}`,
		"Done only if this holds of the results of tasks before it; they are linked by that."},
	{"depth", `{"enum":["all","flow","neighbors","atom"]}`,
		"What is left out if when does not hold: everything after it (the default), what is after it in this flow, " +
			"its neighbours, or itself alone."},
}

var argKeys = table{
	{"requires", names, "Values that it needs."},
	{"optional", valueMap, "Values that it takes if they are there, with what they are if not."},
	{"rebind", nameMap, "Argument: name of the value, where that is another."},
	{"inject", valueMap, "Arguments that are given here."},
}

var actionKeys = table{
	{"run", aCommand, "A command: text for sh, or a list of program and arguments. Values come as environment " +
		"variables and as JSON on standard input."},
	{"http", `{"$ref":"#/$defs/http"}`, "A request."},
	{"go", aName, "A registered function of the program."},
}

var runKeys = table{
	{"output", anOutput, "What becomes the result: the last line (the default), the whole text, JSON (the default " +
		"where provides names parts), or nothing."},
	{"dir", aText, "Where a command runs; defaults to an empty directory of its own."},
	{"env", aFlag, "false: values are on standard input only. For values that are too long for the environment or " +
		"may hold NUL bytes."},
}

var taskKeys = table{
	{"task", aName, "The name of the task, unique in the whole flow."},
	{"about", aText, "For people."},
	{"wait", `{"anyOf":[{"$ref":"#/$defs/name"},{"$ref":"#/$defs/wait"}]}`,
		"Wait for a signal to the flow; what comes with it is the result."},
	{"sleep", aTime, "Wait for a time to pass."},
	{"revert", `{"anyOf":[` + aCommand + `,{"$ref":"#/$defs/revert"}]}`,
		"What reverts it; it gets the same values, and what the task provided."},
	{"provides", `{"anyOf":[{"$ref":"#/$defs/name"},` + aPosition + `,{"$ref":"#/$defs/provides"}]}`,
		"The name of the result, the names of the elements of a list, or the keys of a map."},
	{"timeout", aTime, "Of one attempt."},
	{"attempts", `{"anyOf":[{"type":"integer","minimum":1},{"$ref":"#/$defs/attempts"}]}`,
		"Tried again by itself, before the flow fails."},
	{"priority", `{"type":"integer"}`, "Higher goes first among tasks that are ready."},
	{"version", `{"type":["string","number"]}`, "Of what it does; defaults to 1.0."},
	{"was", names, "Earlier names of the task."},
}

var eachKeys = table{
	{"each", aName, "The argument that holds the item of the list."},
	{"in", `{"anyOf":[{"$ref":"#/$defs/name"},{"type":"array"}]}`, "The list, or the name of an input that is one."},
	{"match", aText, "Only texts that match this pattern, such as *.tif; without a slash it applies to the last part " +
		"of a path."},
	{"order", `{"enum":["unordered","linear"]}`, "All at once (the default), or one after another."},
}

var nameKeys = table{{"name", aName, "The name of the part."}}

var waitKeys = table{
	{"signal", aName, "What it waits for."},
	{"within", aTime, "The task fails if the signal does not come in this time."},
	{"type", `{"enum":["boolean","integer","number","string","list","object"]}`,
		"What comes with the signal; other values are refused. Defaults to anything."},
}

var attemptKeys = table{
	{"max", aCount, "Executions in all."},
	{"first", aTime, "Pause after the first failure, doubled after each further one; defaults to 1s."},
	{"longest", aTime, "Longest pause; defaults to 5m."},
	{"unless", names, "Types of failures that no second attempt would help."},
}

var httpKeys = table{
	{"method", `{"enum":["GET","HEAD","POST","PUT","PATCH","DELETE"]}`, "Defaults to GET."},
	{"url", aText, "{name} stands for a value: in the path as one segment, in the query as one value, at the very " +
		"beginning as the base of the URL."},
	{"headers", textMap, "{name} stands for a value."},
	{"body", anything, "Keys or a list: sent as JSON, {name} stands for a value. A text: JSON in which {name} is a " +
		"value, in quotes a part of a text; without {name} sent as it is."},
	{"form", textMap, "Sent as a form; {name} stands for a value."},
	{"expect", `{"type":"array","minItems":1,"items":{"type":"integer","minimum":100,"maximum":599}}`,
		"Statuses that are a success; defaults to 200 to 299."},
}

var providesKeys = table{{"keys", names, "Entries of a map that are handed on under their keys."}}

// The kinds of mappings.
var (
	fileTable   = join(headKeys, partKeys)
	partTable   = join(nameKeys, partKeys, linkKeys)
	taskTable   = join(taskKeys, actionKeys, runKeys, argKeys, linkKeys)
	eachTable   = join(eachKeys, taskTable)
	revertTable = join(actionKeys, table{{"dir", aText, "Defaults to the task's."}}, argKeys)
)

func join(tables ...table) table {
	var all table
	for _, t := range tables {
		all = append(all, t...)
	}
	return all
}

// named gives a key, or nil.
func (t table) named(name string) *key {
	for i := range t {
		if t[i].name == name {
			return &t[i]
		}
	}
	return nil
}

// names lists the keys.
func (t table) names() []string {
	all := make([]string, len(t))
	for i := range t {
		all[i] = t[i].name
	}
	return all
}

// similar names the word that was probably meant, or lists those that there are.
func similar(word string, known []string) string {
	best := nearest.Word(word, known)
	switch {
	case best != "":
		return fmt.Sprintf("; is it %s?", best)
	case len(known) == 0:
		return ""
	case len(known) > 30:
		return fmt.Sprintf(" (there are %d others)", len(known))
	}
	return " (there are: " + strings.Join(known, ", ") + ")"
}
