package durable

import "os"

// earlyStep is the number of bytes after which the system is asked to write them to the disk.
const earlyStep = 8 << 20

// Early is a new file whose content the system begins to bring to the disk while more of it is written, so that the
// Sync at the end waits for the last part only. Without the Sync nothing is durable.
type Early struct {
	*os.File
	written, begun int64 // bytes
}

// Write implements [io.Writer].
func (e *Early) Write(b []byte) (int, error) {
	n, err := e.File.Write(b)
	e.written += int64(n)
	if e.written-e.begun >= earlyStep {
		begin(e.File, e.begun, e.written-e.begun)
		e.begun = e.written
	}
	return n, err
}
