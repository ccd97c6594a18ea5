// Package tree reads YAML that people write (flows, profiles, settings) into a tree of which every part knows its line and column, so that whoever reads the tree can say where a
// mistake stands.
//
// The files may come from strangers. Three guards stand before what they can do: a text is weighed before the YAML library sees it, because that needs quadratic time or much memory
// for some texts; what the library makes of it is bounded in parts and levels, aliases counted as often as they are used; and a panic of the library is a mistake in the file.
//
// A tree holds what JSON has: nothing, true and false, numbers, texts, lists and keys with values. Tags, merge keys, several documents, infinity and a key that stands there twice
// are refused.
package tree
