// Package trials tries compute as a whole: servers, agents, the original's programs and the network between them, with
// everything going wrong that the specification names. It holds tests only.
//
//	golden_test.go       what users of the original see, with each pairing of our programs and the original's
//	matrix_test.go       one trial for each row of the original's failure matrix (2.7), and matrixrestart_test.go
//	                     those in which a real server is killed
//	weakness_test.go     one trial for each weakness W1 to W8 (3); confinement_test.go for W9 to W15, keeping_test.go
//	                     for W16 to W24
//	kill_test.go         kill -9 of the real server and of the real agent while a job stands in each state; more
//	                     rounds with -kills
//	fault_test.go        answers lost, doubled and late, for each call between server and agent
//
// Beside them stands what they are made of: server_test.go (our server in this process, reached over HTTP),
// agent_test.go (our agent), user_test.go (a user of the original's API), process_test.go (the built program),
// gate_test.go (a network that treats each call as configured, with toxiproxy).
//
// Where it is possible the same happens to the original, played by package wiretest, and must go wrong: that is the
// control of the trial.
package trials
