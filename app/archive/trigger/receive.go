package trigger

// Receiver accepts events of another system.
type Receiver struct{}
