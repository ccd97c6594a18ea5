//go:build !race

package durable_test

// killedFlows is how many flows TestKilledFlows has by default.
const killedFlows = 40
