// Package flowfile makes flows of YAML files: a language for people who want tasks with reverts, retries and waits, and
// do not want to write Go.
//
// A file is read once ([Parse]) into a [File], which can determine where everything stands and builds the same flow
// again and again ([File.Flow]): names, order and links depend on the text and the inputs alone, so a flow that is
// stored with its text is rebuilt after a crash and matches its records ([Factory]). docs/flows.md is the language's
// reference, docs/flowfile.schema.json its schema for editors; both the schema and the check for unknown keys are made
// from the tables in key.go.
//
// What a file may do is decided by the program that reads it ([Options]), never by the file: commands, requests over
// HTTP and functions of the program are off until they are allowed. Values never become program text. A command gets
// them as environment variables and as JSON on its standard input, a request gets them escaped for the position where
// they are put. There is no expression language: conditions are small terms that always end.
package flowfile
