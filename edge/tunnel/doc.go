// Package tunnel reverses connections: an agent behind a firewall dials the server, and the server sends requests to the agent over that connection.
// The agent needs no port that anybody can reach.
//
//	agent                                             server
//	  | -- GET /api/v1/compute/tunnel?agent=NAME -------> |   Connection: Upgrade, Upgrade: stagepost-tunnel/2, a token
//	  | <- 101 ------------------------------------------ |
//	  | <- preface and settings of HTTP/2 --------------- |   the server is the client of HTTP/2 from here on (RFC 9113, section 3.3)
//	  | -- settings ------------------------------------> |
//	  | <- OPTIONS * ------------------------------------ |   the agent counts as connected when it has answered
//	  | -- 200 -----------------------------------------> |
//	  | <- requests to NAME.tunnel, pings --------------- |
//	  | -- answers, pings ------------------------------> |
//
// All of the protocol is HTTP/2 of the standard library: one connection carries many requests at once, each with a flow control window of its own, and both sides
// send pings to a peer that is silent. A peer that does not answer them is disconnected, and its requests fail. The agent then dials again.
//
// The agent's side is [Listen]; [Listener.Server] makes the http.Server that serves its connections. The server's side is a [Pool], which is mounted at the route
// and is the http.RoundTripper of requests to agents.
package tunnel
