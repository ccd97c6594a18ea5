package flowcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stagepost/stagepost/app/flowfile"
	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/flow"
)

// largestInput is what one value of the command line may have, in bytes.
const largestInput = 8 << 20

// readInputs makes values of "name=value" and "name=@file". A value that is JSON is taken as such, any other as text;
// so is a number that would not be written as it was given, such as 1.10, since it is rather a version than a number. A
// file that ends in .json must be JSON.
func readInputs(texts []string, in io.Reader) (map[string]json.RawMessage, error) {
	inputs := map[string]json.RawMessage{}
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, cli.Usagef("--input must be name=value or name=@file, not %q", text)
		}
		if _, twice := inputs[name]; twice {
			return nil, cli.Usagef("--input: %s is given twice", name)
		}
		v, err := readValue(value, in)
		if err != nil {
			return nil, cli.Usagef("--input %s: %w", name, err)
		}
		inputs[name] = v
	}
	return inputs, nil
}

// readValue makes a value of a text: @file is the content of a file, @- of standard input, @@ stands for an @ at the
// beginning of a text.
func readValue(text string, in io.Reader) (json.RawMessage, error) {
	switch {
	case strings.HasPrefix(text, "@@"):
		return quoted(text[1:])
	case text == "@-":
		return readAll(in, "")
	case strings.HasPrefix(text, "@"):
		f, err := os.Open(text[1:])
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readAll(f, text[1:])
	}
	return plainValue(text)
}

// plainValue makes a value of a text.
func plainValue(text string) (json.RawMessage, error) {
	var v flow.Value
	if json.Unmarshal([]byte(text), &v) != nil {
		return quoted(text)
	}
	switch v.Any().(type) {
	case int, float64:
		if again, err := json.Marshal(v.Any()); err != nil || string(again) != strings.TrimSpace(text) {
			return quoted(text)
		}
	}
	return json.RawMessage(text), nil
}

// readAll makes a value of a file's content: JSON as such, anything else as text without the line break at its end.
func readAll(r io.Reader, name string) (json.RawMessage, error) {
	text, err := io.ReadAll(io.LimitReader(r, largestInput+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > largestInput:
		return nil, fmt.Errorf("%s is larger than %d bytes", name, largestInput)
	case json.Valid(text):
		return json.RawMessage(bytes.TrimSpace(text)), nil
	case strings.HasSuffix(name, ".json"):
		return nil, fmt.Errorf("%s is not JSON", name)
	}
	return quoted(strings.TrimSuffix(string(text), "\n"))
}

// quoted makes JSON of a text. What is no text must not be sent as one that is nearly the same.
func quoted(text string) (json.RawMessage, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is neither JSON nor UTF-8 text")
	}
	return json.Marshal(text)
}

// absolutePaths makes the inputs that the file states are paths absolute: commands run in other directories than the
// one in which the user names a file.
func absolutePaths(text []byte, inputs map[string]json.RawMessage) error {
	file, err := flowfile.Inspect(text)
	if err != nil {
		return cli.Usage(err)
	}
	for _, in := range file.Inputs() {
		given, there := inputs[in.Name]
		if !there || !in.Path {
			continue
		}
		dir, err := os.Getwd()
		if err != nil {
			return err
		}
		var v flow.Value
		if err := json.Unmarshal(given, &v); err != nil {
			return cli.Usagef("--input %s: %w", in.Name, err)
		}
		if inputs[in.Name], err = json.Marshal(in.Below(dir, v)); err != nil {
			return cli.Usagef("--input %s: %w", in.Name, err)
		}
	}
	return nil
}

// completeInputs offers the inputs of the flow file that is the command's argument.
func completeInputs(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const only = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(args) == 0 {
		return nil, only
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return nil, only
	}
	file, err := flowfile.Inspect(text)
	if err != nil {
		return nil, only
	}
	var words []string
	for _, in := range file.Inputs() {
		words = append(words, in.Name+"=\t"+in.About)
	}
	return words, only
}
