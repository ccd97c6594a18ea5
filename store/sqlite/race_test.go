//go:build race

package sqlite

// cutStride is how many writes lie between power cuts: with the race detector an image takes ten times as long.
const cutStride = 61

// headStride is the same where the head file and the log overtake each other.
const headStride = 13

// faultStride is how many operations of the disk lie between those that fail.
const faultStride = 80
