package inventory

// Schema is the newest schema that this program reads and writes.
func Schema() int { return len(schemas) }
