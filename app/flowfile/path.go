package flowfile

import (
	"path/filepath"

	"github.com/stagepost/stagepost/flow"
)

// Below gives v, a value for the input, with the paths in it made absolute: relative ones are below dir, where the one
// who submits the flow stands. It changes nothing of inputs that are no paths. Commands run elsewhere, and mostly in
// another process: there a relative path would mean another file.
func (in *Input) Below(dir string, v flow.Value) flow.Value {
	if !in.Path {
		return v
	}
	absolute := func(v any) any {
		if text, is := v.(string); is && text != "" && !filepath.IsAbs(text) {
			return filepath.Join(dir, text)
		}
		return v
	}
	switch was := v.Any().(type) {
	case string:
		return flow.ValueOf(absolute(was))
	case []any:
		paths := make([]any, len(was))
		for i := range was {
			paths[i] = absolute(was[i])
		}
		return flow.ValueOf(paths)
	}
	return v
}

// checkPath refuses values that are not what path: true states. Null and the empty text stand for no path.
func (in *Input) checkPath(v any) error {
	if !in.Path {
		return nil
	}
	all, is := flow.ValueOf(v).Any().([]any)
	if !is {
		all = []any{flow.ValueOf(v).Any()}
	}
	for _, one := range all {
		switch text, is := one.(string); {
		case one == nil && len(all) == 1, is && (text == "" || filepath.IsAbs(text)):
		case is:
			return invalid(nil, "the input %s is a path and must be absolute here, not %.60q", in.Name, text)
		default:
			return invalid(nil, "the input %s must be a path, or a list of them", in.Name)
		}
	}
	return nil
}
