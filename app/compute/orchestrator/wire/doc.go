// Package wire speaks the HTTP wire of job-orchestrator 2.2, on both sides, byte for byte: to users ([Users]), between
// a server and its agents ([Agent] answers, [Client] calls), and in its environment variables ([Environ]).
//
//	user --/upload /download /terminate--> Users --Backend--> a server's jobs
//	server --Client--> /submit /retrieve /kill --> Agent --AgentBackend--> an agent's payloads
//
// The package keeps no state and is independent of jobs: what is behind [Backend] and [AgentBackend] is the truth.
// Where the original is at fault, its answer is still the one that is given as long as existing scripts, servers and
// clients depend on it; what is better stands in extra JSON keys and headers, which they ignore. [Strict] takes even
// those away.
//
// Nothing here holds a file in memory: uploads reach the backend part by part as they come, results are copied out of a
// file or written as they are made.
package wire
