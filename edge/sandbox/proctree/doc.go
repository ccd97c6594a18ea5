// Package proctree reads the tree of processes from /proc and kills parts of it, on Linux.
package proctree
