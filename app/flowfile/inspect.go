package flowfile

import "github.com/stagepost/stagepost/flow"

// Inspect reads a file for its inputs and its structure, as [Lint] does: every kind of task is allowed, and functions
// need not be registered. Its flow can be drawn and not be run. The error is [Mistakes].
func Inspect(text []byte) (*File, error) { return Parse(text, Options{any: true}) }

// Sketch builds the flow for drawings, from the inputs that are given: a task for each item of a missing list is there
// once, for "item". Errors are those of [File.Flow], except that no input is required and paths may be relative.
func (f *File) Sketch(inputs flow.Values) (flow.Item, error) {
	values, err := f.values(inputs, true)
	if err != nil {
		return nil, err
	}
	return f.build(values, true)
}
