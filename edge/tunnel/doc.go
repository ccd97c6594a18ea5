// Package tunnel reverses connections: an agent behind a firewall dials the server, and the server sends requests to
// the agent over that connection. The agent needs no reachable port.
//
//	agent                                             server
//	  | -- GET /api/v1/compute/tunnel?agent=NAME -------> |  Connection: Upgrade, Upgrade: stagepost-tunnel/2
//	  | <- 101 ------------------------------------------ |
//	  | <- preface and settings of HTTP/2 --------------- |   the server is the HTTP/2 client (RFC 9113, 3.3)
//	  | -- settings ------------------------------------> |
//	  | <- OPTIONS * ------------------------------------ |   the agent is connected when it has answered
//	  | -- 200 -----------------------------------------> |
//	  | <- requests to NAME.tunnel, pings --------------- |
//	  | -- answers, pings ------------------------------> |
//
// The protocol is HTTP/2 of the standard library: one connection carries many concurrent requests, each with its own
// flow control window. Both sides ping an idle peer. A peer that does not answer is disconnected, and its requests
// fail. The agent then dials again.
//
// The agent's side is [Listen]; [Listener.Server] returns the http.Server for its connections. The server's side is a
// [Pool], which is mounted at the route and is the http.RoundTripper of requests to agents.
package tunnel
