// Package tree reads YAML that people write (flows, profiles, settings) into a tree. Each node has its line and
// column, so that a caller can report the position of a mistake.
//
// The files may be untrusted. Three guards limit them. The package weighs a text before the YAML library parses it,
// because that library needs quadratic time or much memory for some texts. The result of the library is bounded in
// nodes and levels, and each use of an alias counts. A panic of the library is reported as a mistake in the file.
//
// A tree has the values of JSON: null, true and false, numbers, texts, lists and mappings. Tags, merge keys, several
// documents, infinity and duplicate keys are refused.
package tree
