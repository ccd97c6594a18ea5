//go:build !unix

package durable

// Plain has no effect here.
const Plain = 0
