package conn

import "unsafe"

// at converts an address of SQLite's memory to a pointer. That memory is not Go's: the collector neither moves nor
// frees it.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
