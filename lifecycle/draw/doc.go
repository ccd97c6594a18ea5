// Package draw draws lifecycles: [SVG], [Mermaid] and [DOT] show a table with a [View] of where a job stands, what is
// possible there and how it came; [Markdown] writes the document of several tables. The same input gives the same
// bytes.
package draw
