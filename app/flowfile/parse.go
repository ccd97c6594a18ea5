package flowfile

import (
	"errors"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/format/tree"
)

// Bounds of a file.
const (
	MaxFile   = tree.MaxFile // bytes
	MaxTasks  = 100_000      // of a flow, with all that lists are fanned out to
	MaxDepth  = 32           // of parts within parts
	maxNodes  = 400_000      // aliases count as often as they are used
	maxLevels = 3*MaxDepth + 16
)

// File is a flow that was read and found good. It is safe for concurrent use.
type File struct {
	name, about string
	inputs      []Input
	root        *part
	keeps       bool // at the deadline
	o           Options
}

// Parse reads a file. The error is [Mistakes]: all that were found, or the first if the text is no YAML.
func Parse(text []byte, o Options) (*File, error) {
	f, r := read(text, o)
	if len(r.mistakes) > 0 {
		return nil, r.mistakes.finish(linesOf(text))
	}
	return f, nil
}

// read reads a file; it is whole if the reader has no mistakes.
func read(text []byte, o Options) (*File, *reader) {
	r := &reader{o: o.withDefaults(), taken: map[string]place{}}
	f := &File{o: r.o}
	root, err := grow(text)
	var broken *tree.Error
	if errors.As(err, &broken) {
		r.wrong(broken.Position, "%s", broken.Text)
		return f, r
	}
	r.file(f, root)
	if len(r.mistakes) == 0 {
		r.check(f)
	}
	return f, r
}

// grow reads the YAML of a file.
func grow(text []byte) (*tree.Node, error) {
	return tree.Read(text, tree.Options{
		Nodes: maxNodes, Levels: maxLevels, Aliases: true, Number: asFlowsSee, Quote: true,
		Noun: "flow", Second: "a second document: a file holds one flow",
		Merge: "merge keys (<<) are not part of the language",
	})
}

// file reads the whole.
func (r *reader) file(f *File, t *tree.Node) {
	if !r.keys(t, "a flow", fileTable) {
		return
	}
	if name := t.Get("flow"); name != nil {
		f.name = r.name(name, "flow")
	} else {
		r.wrong(t.Position, "the flow has no name: begin with flow: NAME")
	}
	if about := t.Get("about"); about != nil {
		f.about = r.text(about, "about")
	}
	if inputs := t.Get("inputs"); inputs != nil {
		r.input(inputs)
	}
	if at := t.Get("at_deadline"); at != nil {
		f.keeps = r.oneOf(at, "at_deadline", "revert", "keep") == "keep"
	}
	f.inputs = r.inputs
	f.root = r.part(t, f.name, 1)
}

// input reads the inputs.
func (r *reader) input(t *tree.Node) {
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "inputs are written as keys with values, not as %s", t.Describe())
		return
	}
	for _, m := range t.Members {
		if !nameForm.MatchString(m.Name) {
			r.wrong(m.Position, "%.40q is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores",
				m.Name)
			continue
		}
		in := Input{Name: m.Name, place: m.Position}
		if m.Value.Kind != tree.Mapping {
			in.Default = m.Value.Plain()
		} else if r.keys(m.Value, "an input", inputKeys) {
			r.fillInput(&in, m.Value)
		}
		r.inputs = append(r.inputs, in)
	}
}

// fillInput reads an input that is written with keys.
func (r *reader) fillInput(in *Input, t *tree.Node) {
	in.Required = r.flag(t.Get("required"), "required", false)
	in.Path = r.flag(t.Get("path"), "path", false)
	if about := t.Get("about"); about != nil {
		in.About = r.text(about, "about")
	}
	def := t.Get("default")
	if def == nil {
		return
	}
	if in.Default = def.Plain(); in.Required {
		r.wrong(t.At("default"), "an input that is required needs no default")
	} else if err := in.checkPath(in.Default); err != nil {
		r.wrong(t.At("default"), "the default of a path must be absolute: a file has no directory of its own")
	}
}

// Name gives the flow's name.
func (f *File) Name() string { return f.name }

// About gives what the file states of itself.
func (f *File) About() string { return f.about }

// KeepAtDeadline reports whether what was done is kept when the flow has not ended by its deadline. Who submits the
// flow as a job sets durable.Settings.KeepAtDeadline by it.
func (f *File) KeepAtDeadline() bool { return f.keeps }

// Inputs lists the values that the flow takes from outside, in the order of the file.
func (f *File) Inputs() []Input { return append([]Input(nil), f.inputs...) }

// Values completes and checks inputs: each is declared, each that is required is there, and paths are absolute.
func (f *File) Values(inputs flow.Values) (flow.Values, error) { return f.values(inputs, false) }

// values completes inputs; those for a sketch may lack what is required.
func (f *File) values(inputs flow.Values, sketch bool) (flow.Values, error) {
	all := flow.Values{}
	known := make([]string, len(f.inputs))
	for i, in := range f.inputs {
		known[i] = in.Name
		v, given := inputs[in.Name]
		switch {
		case given:
			all[in.Name] = v
			if err := in.checkPath(v); err != nil && !sketch {
				return nil, err
			}
		case in.Required && !sketch:
			return nil, invalid(nil, "the flow %s requires the input %s", f.name, in.Name)
		default:
			all[in.Name] = in.Default
		}
	}
	for name := range inputs {
		if _, there := all[name]; !there {
			return nil, invalid(nil, "the flow %s has no input %.60q%s", f.name, name, similar(name, known))
		}
	}
	return all, nil
}
