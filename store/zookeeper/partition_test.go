package zookeeper_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/storetest"
	"github.com/stagepost/stagepost/store/zookeeper"
	"github.com/stagepost/stagepost/store/zookeeper/zktest"
)

var partitions = flag.Int("partitions", 3, "cells of the matrix of partitions that are tried")

// separations are the ways in which connections are cut, or a server is stopped.
var separations = []struct {
	name string
	cut  func(w *zktest.Network, t *testing.T, leader int)
}{
	{"the leader", func(w *zktest.Network, _ *testing.T, leader int) { w.Part(leader) }},
	{"the client", func(w *zktest.Network, _ *testing.T, _ int) { w.Client() }},
	{"one way", func(w *zktest.Network, _ *testing.T, leader int) { w.OneWay(leader, (leader+1)%3) }},
	{"server 1", func(w *zktest.Network, _ *testing.T, _ int) { w.Part(0) }},
	{"server 2", func(w *zktest.Network, _ *testing.T, _ int) { w.Part(1) }},
	{"server 3", func(w *zktest.Network, _ *testing.T, _ int) { w.Part(2) }},
	{"the leader and its clients", func(w *zktest.Network, _ *testing.T, leader int) { w.Cut(leader) }},
	{"the leader is stopped", func(w *zktest.Network, t *testing.T, leader int) { w.Servers[leader].Pause(t) }},
}

// moments are when that happens to the work on a job: before it is claimed, while its worker works, and while the
// result is written.
var moments = []string{"acquire", "work", "commit"}

// TestPartitions cuts connections of an ensemble at each moment of the work on a job. In each cell the job is claimed
// once and moved once, whatever the servers answered, and the store works again within two session timeouts and 5 s
// after the connections are restored.
func TestPartitions(t *testing.T) {
	w := zktest.StartNetwork(t, 3)
	const timeout = 20 * zktest.Tick
	s, err := zookeeper.Open(t.Context(), w.Addresses(), zookeeper.Options{SessionTimeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := len(separations) * len(moments)
	for n := range min(*partitions, all) {
		cell := n
		if *partitions < all { // each separation and each moment in a few cells
			cell = (n*len(moments) + n%len(moments)) % all
		}
		how, moment := separations[cell/len(moments)], moments[cell%len(moments)]
		name := fmt.Sprintf("%s, %s", how.name, moment)
		c := &partition{t, s, job.ID(fmt.Sprintf("tst_%02d", n))}
		until(t, func() error { _, err := s.Create(t.Context(), made(string(c.id), "")); return err })
		var epoch int64
		if moment != "acquire" {
			epoch = c.claim()
		}
		done := make(chan struct{})
		work := func() {
			defer close(done)
			if epoch == 0 {
				epoch = c.claim()
			}
			c.commit(epoch)
		}
		leader := w.Leads()
		if moment == "commit" {
			go work()
		}
		how.cut(w, t, leader)
		if moment == "acquire" {
			go work()
		}
		select {
		case <-done:
		case <-time.After(3 * timeout / 2): // sessions of separated clients have ended
		}
		w.Heal()
		if how.name == "the leader is stopped" {
			w.Servers[leader].Continue(t)
		}
		healed := time.Now()
		if moment == "work" {
			go work()
		}
		select {
		case <-done:
		case <-time.After(2*timeout + 5*time.Second):
			t.Errorf("%s: no recovery within two session timeouts and 5 s", name)
			<-done
		}
		t.Logf("%s: %s after the connections were restored", name, time.Since(healed).Round(time.Millisecond))
		c.check(name, epoch)
	}
	sound(t, s)
}

// partition is one cell: a job, and its only worker.
type partition struct {
	*testing.T
	s  *zookeeper.Store
	id job.ID
}

// claim claims the job. An answer that was lost is found in the record.
func (c *partition) claim() (epoch int64) {
	until(c.T, func() error {
		j, err := c.s.Get(c.Context(), c.id)
		if err != nil || j.Claimed() {
			epoch = j.Epoch
			return err
		}
		jobs, err := c.s.Claim(c.Context(), job.Claim{Worker: "w", N: 1, Lease: time.Hour, Now: time.Now(),
			From: []job.KindState{{Kind: j.Kind, State: j.State}}})
		if err == nil && len(jobs) != 1 {
			err = fmt.Errorf("%d jobs were claimed", len(jobs))
		}
		if err == nil {
			epoch = jobs[0].Epoch
		}
		return err
	})
	return epoch
}

// commit moves the job under its claim. An answer that was lost is found in the history.
func (c *partition) commit(epoch int64) {
	until(c.T, func() error {
		j, err := c.s.Get(c.Context(), c.id)
		if err != nil || j.Seq > 1 {
			return err
		}
		e, _ := storetest.Step.Choose(j.Position, lifecycle.Pass, lifecycle.Worker)
		to, err := storetest.Step.Next(j.Position, e, lifecycle.Worker)
		if err != nil {
			return err
		}
		results, err := c.s.Commit(c.Context(), job.Change{Job: c.id, Epoch: epoch, From: j.State, Event: e, To: to,
			Ended: storetest.Step.Ended(to.State), By: lifecycle.Worker, Actor: "w", At: time.Now()})
		if err == nil {
			err = results[0].Err
		}
		return err
	})
}

// check checks that the job was claimed and moved once.
func (c *partition) check(name string, epoch int64) {
	c.Helper()
	j, err := c.s.Get(c.Context(), c.id)
	if err != nil || j.Epoch != 1 || epoch != 1 {
		c.Errorf("%s: epoch %d, of the worker %d, %v", name, j.Epoch, epoch, err)
	}
	history, err := c.s.History(c.Context(), c.id, 0, 0)
	if err != nil || len(history) != 2 {
		c.Errorf("%s: the history has %d entries, %v", name, len(history), err)
	}
}
