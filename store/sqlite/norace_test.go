//go:build !race

package sqlite

// cutStride is how many writes lie between power cuts.
const cutStride = 5

// headStride is the same where the head file and the log overtake each other.
const headStride = 3

// faultStride is how many operations of the disk lie between those that fail.
const faultStride = 4
