//go:build race

package durable_test

// killedFlows is how many flows TestKilledFlows has by default: with the race detector a worker takes ten times as long
// to begin.
const killedFlows = 20
