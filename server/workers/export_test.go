package workers

// Known is how many workers are kept in memory.
func (r *Registry) Known() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.workers)
}
