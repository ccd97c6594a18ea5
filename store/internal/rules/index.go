package rules

// few is the number of elements that are searched one by one.
const few = 8

// index finds the elements of a list by key. It grows with the list, and shrinks with it.
type index[K comparable] struct {
	keys   []K
	newest map[K]int // the last element of each key; used if there are more than few
	before []int     // of each element, the one before with its key, or -1; used likewise
}

// add appends an element.
func (x *index[K]) add(key K) {
	x.keys = append(x.keys, key)
	if len(x.keys) <= few && len(x.before) == 0 {
		return
	}
	if x.newest == nil {
		x.newest = map[K]int{}
	}
	for i := len(x.before); i < len(x.keys); i++ {
		x.before = append(x.before, -1)
		if old, twice := x.newest[x.keys[i]]; twice {
			x.before[i] = old
		}
		x.newest[x.keys[i]] = i
	}
}

// find returns the last element with the key, or -1.
func (x *index[K]) find(key K) int {
	if len(x.before) > 0 {
		if i, found := x.newest[key]; found {
			return i
		}
		return -1
	}
	for i := len(x.keys) - 1; i >= 0; i-- {
		if x.keys[i] == key {
			return i
		}
	}
	return -1
}

// cut removes all but the first n elements.
func (x *index[K]) cut(n int) {
	if n == 0 && len(x.before) > 0 {
		clear(x.newest)
		x.before = x.before[:0]
	}
	for i := len(x.before) - 1; i >= n; i-- {
		if old := x.before[i]; old >= 0 {
			x.newest[x.keys[i]] = old
		} else {
			delete(x.newest, x.keys[i])
		}
	}
	x.before = x.before[:min(n, len(x.before))]
	clear(x.keys[n:])
	x.keys = x.keys[:n]
}
