// Package draw shows flows: as a graph ([SVG], [DOT], [Mermaid]), along the time ([Timeline], [TimelineText]) and as a
// tree for terminals ([Tree]).
//
// It sees a flow as [flow.Outline] and what is stored of it as records, so it can draw what another process runs.
// Nothing that it is given is trusted: names and messages come from users and failed programs, outlines perhaps from a
// file. No text leaves its position, no control character passes, links that lead nowhere are not drawn. The same input
// gives the same bytes.
//
// The graph is laid out from the inside: every flow becomes a box with its items in it (one below another, side by
// side, or in layers), and the box is an item of the next one like a task. Lines leave their columns only in the gaps
// between layers, so nothing can overlap.
package draw
