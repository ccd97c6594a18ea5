//go:build !race

package sqlite

// cutStride is how many writes lie between power cuts.
const cutStride = 1

// faultStride is how many operations of the disk lie between those that fail.
const faultStride = 4
