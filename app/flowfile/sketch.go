package flowfile

import "github.com/stagepost/stagepost/flow"

// Look reads a file for its inputs and its shape, as [Lint] does: nothing is off, and functions are not looked up. Its
// flow can be drawn and not be run. The error is [Mistakes].
func Look(text []byte) (*File, error) { return Parse(text, Options{any: true}) }

// Sketch builds the flow for examining it, with what is known of its inputs: a task for each item of a list that is
// missing is there once, for "item". Errors are those of [File.Flow], except that nothing is required and paths may be
// relative.
func (f *File) Sketch(inputs flow.Values) (flow.Item, error) {
	values, err := f.values(inputs, true)
	if err != nil {
		return nil, err
	}
	return f.build(values, true)
}
