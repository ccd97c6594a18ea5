package conn

import "unsafe"

// at makes an address of SQLite's memory a pointer. That memory is not Go's: the collector neither moves nor frees it.
func at(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }
