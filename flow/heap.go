package flow

import "container/heap"

// numbers is a heap of item numbers, the smallest first.
type numbers []int

func (n numbers) Len() int           { return len(n) }
func (n numbers) Less(i, j int) bool { return n[i] < n[j] }
func (n numbers) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }

// Push is part of heap.Interface.
func (n *numbers) Push(v any) { *n = append(*n, v.(int)) }

// Pop is part of heap.Interface.
func (n *numbers) Pop() any {
	last := (*n)[len(*n)-1]
	*n = (*n)[:len(*n)-1]
	return last
}

func newHeap() *numbers { return &numbers{} }

func (n *numbers) push(i int) { heap.Push(n, i) }
func (n *numbers) pop() int   { return heap.Pop(n).(int) }
func (n *numbers) len() int   { return len(*n) }
