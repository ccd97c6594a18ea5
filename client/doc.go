// Package client is the HTTP API in Go. The command line and workers on other machines use it. Its types are those of
// package api.
//
//	c, err := client.New("http://127.0.0.1:7433", client.Options{})
//	j, err := c.Job(ctx, "ing_01J9...")
//
// Errors are [*job.Error] with the kind that the server gave; [ProblemOf] has the rest: the rule that refused, the
// state, the legal moves. A call that did not reach the server is of kind Unavailable.
package client
