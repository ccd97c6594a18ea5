package mem_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// manyTasks are n tasks in no order.
func manyTasks(n int, message string) []job.Task {
	tasks := make([]job.Task, n)
	for i := range tasks {
		tasks[i] = job.Task{Name: fmt.Sprintf("task-%06d", i*7919%n), Kind: "t", State: "Done", Message: message}
	}
	return tasks
}

// taskStore is a store with one job, and what commits tasks to it.
func taskStore(t testing.TB) (*mem.Store, func(tasks ...job.Task)) {
	t.Helper()
	s := mem.New()
	j, e := job.New(job.Job{ID: "tst_1", Kind: "t", Position: lifecycle.Position{State: "A"}, Priority: 50},
		lifecycle.Owner, "ann", time.Now())
	if _, err := s.Create(t.Context(), job.Created{Job: j, Event: e}); err != nil {
		t.Fatal(err)
	}
	version := j.Version
	return s, func(tasks ...job.Task) {
		results, err := s.Commit(t.Context(),
			job.Change{Job: j.ID, Version: version, Keep: true, At: time.Now(), Tasks: tasks})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		version = results[0].Job.Version
	}
}

// TestManyTasks: as many as a large flow has, in one commit and one by one, are read by name, each as it was put last.
func TestManyTasks(t *testing.T) {
	const n = 20_000
	s, put := taskStore(t)
	put(manyTasks(n, "first")...)
	for _, task := range manyTasks(n, "second")[:n/2] {
		put(task)
	}
	tasks, err := s.Tasks(t.Context(), "tst_1")
	if err != nil || len(tasks) != n {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if !slices.IsSortedFunc(tasks, func(a, b job.Task) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("they are not in the order of their names")
	}
	second := 0
	for i := range tasks {
		if tasks[i].Message == "second" {
			second++
		}
	}
	if second != n/2 {
		t.Errorf("%d were replaced, want %d", second, n/2)
	}
	tasks[0].Message = "mine"
	if again, err := s.Tasks(t.Context(), "tst_1"); err != nil || again[0].Message == "mine" {
		t.Errorf("the answer is the store's own: %v", err)
	}
}

// BenchmarkTask gives the time of a commit of one task of a job that has n.
func BenchmarkTask(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			_, put := taskStore(b)
			tasks := manyTasks(n, "x")
			put(tasks...)
			i := 0
			for b.Loop() {
				put(tasks[i%n])
				i++
			}
		})
	}
}
